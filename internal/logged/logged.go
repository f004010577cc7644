// Package logged is for tests of what is logged, and when: a log that is read line by line, and a clock that the test sets.
package logged

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// World has a log and a clock. It is safe for concurrent use.
type World struct {
	mu   sync.Mutex
	at   time.Time
	text bytes.Buffer
}

// New returns a world with an empty log.
func New() *World { return &World{at: time.Date(2026, 11, 25, 2, 0, 0, 0, time.UTC)} }

// Logger returns a logger that writes to the log.
func (w *World) Logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write appends to the log.
func (w *World) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(line)
}

// Now returns the time.
func (w *World) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.at
}

// Wait lets time pass.
func (w *World) Wait(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = w.at.Add(d)
}

var written = regexp.MustCompile(`(?m)^time=\S+ `)

// Said returns the lines since it was last called, without the time at which each was written.
func (w *World) Said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.text.Reset()
	return written.ReplaceAllString(w.text.String(), "")
}

// Lines are the messages of an episode, see package episodes. Each is in quotes if it has a space.
type Lines struct {
	Began, Still, Ended string
	Count               string        // what is counted
	Detail              string        // the attributes of lines about trouble
	Calm                time.Duration // how long after the last trouble a success ends it; 0: it ends at once
}

// RequireEpisodes has trouble three times over a minute, then a success, then trouble again. It requires a line when
// the trouble begins, one after a minute with what was counted, one when it has ended with how long it took, and one
// when it begins again.
func (w *World) RequireEpisodes(t testing.TB, want Lines, trouble, success func()) {
	t.Helper()
	if want.Still == "" {
		want.Still = want.Began
	}
	success()
	require.Empty(t, w.Said(), "there was no trouble")
	began := w.Now().Format("2006-01-02T15:04:05.000Z")
	trouble()
	require.Equal(t, fmt.Sprintf("level=WARN msg=%s%s %s=1\n", want.Began, want.Detail, want.Count), w.Said())
	w.Wait(time.Minute - 1)
	trouble()
	require.Empty(t, w.Said(), "a minute is not over")
	w.Wait(1)
	trouble()
	require.Equal(t, fmt.Sprintf("level=WARN msg=%s since=%s%s %s=3\n", want.Still, began, want.Detail, want.Count), w.Said())
	if want.Calm > 0 {
		w.Wait(want.Calm - 1)
		success()
		require.Empty(t, w.Said(), "there was trouble a moment ago")
		w.Wait(1)
	}
	success()
	require.Equal(t, fmt.Sprintf("level=INFO msg=%s after=1m0s %s=3\n", want.Ended, want.Count), w.Said())
	w.Wait(time.Second)
	trouble()
	require.Equal(t, fmt.Sprintf("level=WARN msg=%s%s %s=1\n", want.Began, want.Detail, want.Count), w.Said(), "another episode")
}
