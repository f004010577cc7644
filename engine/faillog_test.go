package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// There is a line at once, and then one every minute, with the beginning of the incident and
// the number of answers by FAIL policies, until a minute passes without an answer.
func TestPolicyLogHasALineAtOnceAndEveryMinute(t *testing.T) {
	var l FailLog
	began := time.Date(2026, 11, 22, 2, 0, 0, 0, time.UTC)
	at := began.Add
	require.Empty(t, l.Line(began))
	require.Equal(t, []any{"since", began, "closed", int64(1)}, l.Count(FailClosed, began, false))
	for range 100 {
		require.Empty(t, l.Count(FailOpen, at(59*time.Second), false))
	}
	require.Equal(t, []any{"since", began, "closed", int64(2), "open", int64(100)}, l.Count(FailClosed, at(time.Minute), false))
	require.Empty(t, l.Count(FailClosed, at(2*time.Minute-1), false))
	require.Empty(t, l.Line(at(2*time.Minute-1)))
	require.Equal(t, []any{"since", began, "closed", int64(3), "open", int64(100)}, l.Line(at(2*time.Minute)), "the last answer is not forgotten")
	require.Empty(t, l.Line(at(4*time.Minute)), "nothing is said twice")
	require.Equal(t, []any{"since", at(5 * time.Minute), "error", int64(1)}, l.Count(FailError, at(5*time.Minute), false))

	// While a node is down its own lines have the counts.
	var down FailLog
	require.Empty(t, down.Count(FailLocal, began, true))
	require.Empty(t, down.Count(FailLocal, at(time.Hour), true))
	require.Equal(t, []any{"local", int64(2)}, down.Counts())
	require.Equal(t, []any{"local", int64(2)}, down.Take())
	require.Empty(t, down.Take())
	require.Equal(t, []any{"since", at(time.Hour), "local", int64(1)}, down.Count(FailLocal, at(time.Hour), false))
}
