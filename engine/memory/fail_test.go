package memory

import (
	"bytes"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// Without backends, FAIL rules answer for keys that do not fit into memory.
func TestPolicyRulesWhenMemoryIsFull(t *testing.T) {
	e := New(Config{MaxMemory: 1, Settings: Settings{FailRules: []engine.FailRule{{Glob: "open:*", Fail: engine.FailOpen}, {Glob: "error:*", Fail: engine.FailError}}}})
	open := conformance.Ask(e, conformance.Slide("open:1", 1, 1000, 1))
	require.True(t, open.Allowed)
	require.Equal(t, engine.FailOpen, open.Fail, "what answered")
	require.ErrorContains(t, conformance.Ask(e, conformance.Slide("error:1", 1, 1000, 1)).Err, "UNAVAILABLE embedded: memory is full")
	closed := conformance.Ask(e, conformance.Slide("other", 1, 1000, 1))
	require.False(t, closed.Allowed)
	require.EqualValues(t, -1, closed.Remaining)
	require.Equal(t, engine.FailClosed, closed.Fail)
}

// The log has a line as soon as memory is full and one every minute while it is, with the
// beginning and the number of answers by FAIL policies. INFO counts the answers.
func TestTheLogSaysThatMemoryIsFull(t *testing.T) {
	var log bytes.Buffer
	e, clock := setClock(t, Config{MaxMemory: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ask := func(fail engine.FailPolicy) {
		r := conformance.Slide("k", 1, 1000, 1)
		r.Fail = fail
		_ = conformance.Ask(e, r)
	}
	ask(engine.FailLocal)
	ask(engine.FailOpen)
	line := `level=WARN msg="maxmemory reached: FAIL policies are answering for keys that cannot be stored" maxmemory=1 `
	require.Equal(t, 1, strings.Count(log.String(), line), log.String())
	require.Contains(t, log.String(), " closed=1\n")
	*clock += 60_000
	ask(engine.FailError)
	ask(engine.FailError)
	require.Equal(t, 2, strings.Count(log.String(), line), log.String())
	require.Contains(t, log.String(), " closed=1 open=1 error=1\n")
	require.EqualValues(t, 4, e.Refused())
	*clock += 59_999
	e.log.End()
	require.NotContains(t, log.String(), "level=INFO")
	*clock++
	e.log.End()
	require.Contains(t, log.String(), `level=INFO msg="keys can be stored again: FAIL policies no longer answer for them" maxmemory=1 after=1m0s closed=1 open=1 error=2`)
	ask(engine.FailOpen)
	require.Equal(t, 3, strings.Count(log.String(), line), "another episode")
}

// Answers after the first line are in a second one, even if there are no further requests.
func TestTheLogSaysHowOftenPoliciesAnswered(t *testing.T) {
	var log proxytest.LockedBuffer
	var minutes atomic.Int64
	e := Open(Config{MaxMemory: 1, Logger: slog.New(slog.NewTextHandler(&log, nil)), Now: conformance.At(func() int64 {
		return conformance.Base + minutes.Load()*time.Minute.Milliseconds()
	})})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	for range 12 {
		_ = conformance.Ask(e, conformance.Slide("k", 1, 1000, 1))
	}
	require.Equal(t, 1, strings.Count(log.String(), "maxmemory reached"), log.String())
	for range 3 {
		minutes.Add(1)
		proxytest.Eventually(t, "a line", func() bool { return strings.Contains(log.String(), " closed=12\n") })
	}
	require.Equal(t, 2, strings.Count(log.String(), "maxmemory reached"), log.String())
}
