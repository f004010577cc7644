package decisionlog

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/machine"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// bench is a Recorder with a clock that the test moves, a log that it reads, and the files
// that it opens.
type bench struct {
	*Recorder
	moved atomic.Int64 // how far the test has moved the clock
	log   proxytest.LockedBuffer
	path  string // of the file
	once  sync.Once
}

var began = time.Date(2026, 11, 22, 5, 17, 3, 123_456_789, time.UTC)

// close closes the Recorder, if it is open.
func (b *bench) close() { b.once.Do(b.Close) }

// wait moves the clock.
func (b *bench) wait(d time.Duration) { b.moved.Add(int64(d)) }

func (b *bench) clock() time.Time { return began.Add(time.Duration(b.moved.Load())) }

// start returns a Recorder that writes to a file with the settings. The clock stands still.
func start(t testing.TB, s Settings) *bench {
	t.Helper()
	b := silent(t)
	b.open(t, s)
	return b
}

// silent returns a Recorder without a file.
func silent(t testing.TB) *bench {
	t.Helper()
	b := &bench{path: filepath.Join(t.TempDir(), "decisions")}
	b.Recorder = New(Config{
		Where:  func([]byte) (string, int) { return "10.0.0.1:6379", 1 },
		Now:    b.clock,
		Logger: slog.New(slog.NewTextHandler(&b.log, nil)),
	})
	t.Cleanup(b.close)
	return b
}

// open lets the Recorder use the file at b.path.
func (b *bench) open(t testing.TB, s Settings) {
	t.Helper()
	f, err := machine.OpenAppend("decision-log", b.path)
	require.NoError(t, err)
	b.Use(f, s)
}

// lines closes the Recorder and returns the lines of its file.
func (b *bench) lines(t testing.TB) []map[string]any {
	t.Helper()
	b.close()
	return readLines(t, b.path)
}

// readLines returns the lines of a file, each of which must be a JSON object.
func readLines(t testing.TB, path string) (all []map[string]any) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, len(text) == 0 || text[len(text)-1] == '\n', "the last line is not whole")
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields), line)
		all = append(all, fields)
	}
	return all
}

// from is the client of all tests.
var from = observe.Sender{Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 9), Port: 51234}, Name: "checkout"}

// asked is a request and its answer.
type asked struct {
	engine.Request
	engine.Result
}

// slide is a request of RL.SLIDE with a limit of 5 per second, which was denied.
func slide(key string) asked {
	a := asked{Request: engine.Request{Key: []byte(key)}}
	a.Kind, a.N, a.Cost = limit.Slide, 1, 1
	a.Windows[0] = limit.Window{Limit: 5, Length: 1000}
	a.Decision = limit.Decision{Limit: 5, RetryAfter: 40, ResetAfter: 900}
	return a
}

// per replaces the length of the window, in ms.
func (a asked) per(length int64) asked {
	a.Windows[0].Length = length
	return a
}

// allowed makes the answer an admission, after which remaining are left.
func (a asked) allowed(remaining int64) asked {
	a.Decision = limit.Decision{Allowed: true, Limit: 5, Remaining: remaining, ResetAfter: 900}
	return a
}

// by makes the answer that of a FAIL policy.
func (a asked) by(p engine.FailPolicy) asked {
	a.Result = engine.Result{Fail: p, Decision: limit.Decision{Allowed: p == engine.FailOpen, Limit: 5, Remaining: -1}}
	if p == engine.FailClosed {
		a.RetryAfter, a.ResetAfter = 70, 70
	}
	if p == engine.FailError {
		a.Result = engine.Result{Fail: p, Err: &engine.Unavailable{Node: "10.0.0.1:6379", Why: "node is down"}}
	}
	return a
}

// failed makes the answer an error about the key.
func (a asked) failed() asked {
	a.Result = engine.Result{Err: errors.New("ERR the stored record of '" + string(a.Key) + "' is damaged")}
	return a
}

// show shows a pipeline to the Recorder.
func (b *bench) show(all ...asked) {
	p := &engine.Pipeline{}
	for _, a := range all {
		p.Requests = append(p.Requests, a.Request)
		p.Results = append(p.Results, a.Result)
	}
	b.Record(p, from)
}
