package accuracy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/commands"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/stretchr/testify/require"
)

// world is one limiter and the clock that it goes by.
type world struct {
	rule
	buckets int64 // sub-windows of a counter; 0 or 1: the window is one
	margin  int64 // ms by which what must be before a moment is before it
	late    int64 // ms by which what must be after a moment is after it, if not at it
	tick    int64 // us that a limiter may be late because its clock shows whole ms; 0 if the test sets the clock to whole ms
	ask     asking
	now     func() int64   // us since the epoch
	until   func(at int64) // returns once it is that ms
	steps   int64          // in which a greedy client asks during a window
	ahead   int64          // windows after which the next schedules begin
	keys    int            // used by now
	closed  float64        // the most of any history by now, over the limit, if both ends of a window count
}

// embedded stands for the address of a redis-server when there is none.
const embedded = "embedded"

// epoch is when clocks that the test sets begin: a multiple of every window, in a future
// that no time to live of the machine's clock reaches.
var epoch = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

const (
	setWindow    = 10_000 // ms
	stepsPerUnit = 5      // of the limit, in which a greedy client asks
	realMargin   = 30     // ms
	edgeTries    = 3      // by a real clock: a busy machine misses an edge now and then
)

// onSetClock returns a world whose clock stands still until the test sets it: that of a redis-server, or of
// the embedded engine. rlproxy's server runs in this process, and asks its node every time: what it would
// remember of a denial, it would remember by the machine's clock.
func (r *row) onSetClock(t testing.TB, on string, limit int64) *world {
	t.Helper()
	var at atomic.Int64
	at.Store(epoch)
	set := at.Store
	var addr string
	if on == embedded {
		addr = serve(t, memory.New(memory.Config{Now: func() time.Time { return time.UnixMilli(at.Load()) }}))
	} else {
		node := redistest.StartClocked(t)
		node.StopClock(time.UnixMilli(epoch))
		set = func(ms int64) { at.Store(ms); node.StopClock(time.UnixMilli(ms)) }
		addr = node.Addr
		if r.command {
			fleet, err := backend.Open(backend.Config{Backends: []string{node.URL()}, Timeout: proxytest.Patience})
			require.NoError(t, err)
			t.Cleanup(func() { _ = fleet.Close() })
			addr = serve(t, redis.Open(fleet, redis.Config{AskAlways: true}))
		}
	}
	c := r.dial(t, addr)
	return &world{
		rule: rule{limit: limit, window: setWindow}, buckets: r.buckets, margin: 1, ahead: 3, steps: stepsPerUnit * limit,
		ask: func(key string, q rule, n int) ([]answer, error) { return c.ask(key, q, n) },
		now: func() int64 { return at.Load() * 1000 },
		until: func(ms int64) {
			require.GreaterOrEqual(t, ms, at.Load(), "the clock does not step back")
			set(ms)
		},
	}
}

// serve runs an rlproxy on an engine in this process, and returns its address.
func serve(t testing.TB, e engine.Engine) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s := resp.NewServer(resp.Config{}, commands.New(commands.Config{Engine: e}))
	served := make(chan struct{})
	go func() { // until the server is shut down
		defer close(served)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Shutdown(context.Background())
		<-served
		_ = e.Close()
	})
	return l.Addr().String()
}

// onRealClock returns a world with the rlproxy that users run, a redis-server and the machine's clock.
func (r *row) onRealClock(t testing.TB) *world {
	t.Helper()
	node := redistest.Start(t)
	addr := node.Addr
	if r.command {
		addr = startProxy(t, node.URL())
	}
	c := r.dial(t, addr)
	return realClock(func(key string, q rule, n int) ([]answer, error) { return c.ask(key, q, n) })
}

// realClock returns a world by the machine's clock. Its windows are as short as all limiters know them, and
// its limit is small enough for many schedules side by side.
func realClock(ask asking) *world {
	return &world{
		rule: rule{limit: 20, window: 1000}, margin: realMargin, late: realMargin, tick: 1000, ahead: 1, steps: 30,
		ask:   ask,
		now:   func() int64 { return time.Now().UnixMicro() },
		until: func(ms int64) { time.Sleep(time.Until(time.UnixMilli(ms))) },
	}
}

// burst is n requests at once.
type burst struct {
	at int64 // ms from the beginning of a window
	n  int
}

// schedule is what one client sends: bursts in order of time.
type schedule []burst

// start returns the beginning of a window that is still to come.
func (w *world) start() int64 { return (w.now()/1000/w.window + w.ahead) * w.window }

// change is a moment from which requests have another limit.
type change struct {
	at    int64 // ms from the beginning of a window
	limit int64
}

// run plays schedules at the same time, each with its own key, and returns their outcomes. Each may
// have a change.
func (w *world) run(t testing.TB, schedules []schedule, changes ...change) []history {
	t.Helper()
	type event struct {
		burst
		of int
	}
	var events []event
	for i, s := range schedules {
		for _, b := range s {
			events = append(events, event{b, i})
		}
	}
	slices.SortStableFunc(events, func(a, b event) int { return int(a.at - b.at) })
	start, first := w.start(), w.keys
	w.keys += len(schedules)
	out := make([]history, len(schedules))
	for _, e := range events {
		w.until(start + e.at)
		q := w.rule
		if len(changes) > 0 && e.at >= changes[e.of].at {
			q.limit = changes[e.of].limit
		}
		out[e.of] = append(out[e.of], w.send(t, fmt.Sprintf("k%d", first+e.of), q, e.n)...)
	}
	return out
}

// send sends n requests at once.
func (w *world) send(t testing.TB, key string, q rule, n int) (h history) {
	t.Helper()
	sent := w.now()
	answers, err := w.ask(key, q, n)
	require.NoError(t, err)
	got := w.now()
	for _, a := range answers {
		h = append(h, asked{sent, got, a.ok, q.limit})
	}
	return h
}

// key returns a key that no request was about.
func (w *world) key() string {
	w.keys++
	return fmt.Sprintf("k%d", w.keys-1)
}
