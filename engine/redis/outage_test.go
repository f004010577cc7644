package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// askLocal sends a request about a key with a limit of 5 per hour and FAIL LOCAL.
func askLocal(e *Engine, key string) limit.Decision {
	r := conformance.Slide(key, 5, 3_600_000, 1)
	r.Fail = engine.FailLocal
	return conformance.Ask(e, r).Decision
}

// askFor sends requests about a key for a while, at least ten, and returns how many the node admitted and
// how many LOCAL admitted.
func askFor(e *Engine, key string, while time.Duration) (node, local int) {
	for began, sent := time.Now(), 0; sent < 10 || time.Since(began) < while; sent++ {
		switch d := askLocal(e, key); {
		case d.Allowed && d.Remaining < 0:
			local++
		case d.Allowed:
			node++
		}
	}
	return node, local
}

// A node that is up but refuses writes is not charged, so units that LOCAL admits count here until the
// node takes them, and then until they have left the window.
func TestLocalCountsStayWhileANodeRefusesWrites(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		code        string
		begin, over []any
	}{
		{"OOM", []any{"CONFIG", "SET", "maxmemory", "1"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		{"NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		{"NOPERM", []any{"ACL", "SETUSER", "proxy", "-fcall", "-evalsha"}, []any{"ACL", "SETUSER", "proxy", "+@all"}},
		{"NOPERM a key", []any{"ACL", "SETUSER", "proxy", "resetkeys", "~other"}, []any{"ACL", "SETUSER", "proxy", "allkeys"}},
	} {
		t.Run(refusal.code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do("ACL", "SETUSER", "proxy", "on", ">secret", "allkeys", "allchannels", "+@all")
			e := openAlways(t, 5*time.Second, "redis://proxy:secret@"+s.Addr)
			ready(t, e, "k")
			for range 2 {
				s.Do(refusal.begin...)
				node, local := askFor(e, "k", 500*time.Millisecond)
				require.Zero(t, node)
				require.LessOrEqual(t, local, 5)
				s.Do(refusal.over...)
				require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "1" }, 10*time.Second, time.Millisecond)
				require.Equal(t, "0", info(t, e, "local_unwritten"))
				require.Equal(t, "0", info(t, e, "local_lost"))
				require.Equal(t, "1", info(t, e, "local_keys"), "what was written back stays counted here")
				states := conformance.Ask(e, conformance.Inspect("k")).States
				require.Len(t, states, 1)
				require.EqualValues(t, 5, states[0].Used)
			}
		})
	}
}

// In all outages together, a proxy admits at most the limit in a window, and a node as much. A second
// outage does not begin with a fresh count.
func TestOutagesTogetherAdmitOneLimit(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 100*time.Millisecond, s.URL())
	ready(t, e, "k")
	node, local := 0, 0
	for range 15 {
		s.Pause()
		n, l := askFor(e, "k", 400*time.Millisecond)
		node, local = node+n, local+l
		s.Resume()
		require.Eventually(t, func() bool {
			d := askLocal(e, "k")
			switch {
			case d.Allowed && d.Remaining < 0:
				local++
			case d.Allowed:
				node++
			}
			return d.Remaining >= 0
		}, 10*time.Second, time.Millisecond)
	}
	t.Logf("the node admitted %d, LOCAL %d", node, local)
	require.LessOrEqual(t, node, 5)
	require.LessOrEqual(t, local, 5)
}

// A proxy that is not ready because its nodes refuse calls may get no requests that show when they decide again.
func TestANodeThatRefusesIsAskedUntilItDecides(t *testing.T) {
	t.Parallel()
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	var refuses atomic.Bool
	var refused atomic.Int64
	refuses.Store(true)
	n.set(func(args []string) reply {
		if args[0] == "fcall" && args[1] == lua.Decide.Name && refuses.Load() {
			refused.Add(1)
			return reply{text: "-OOM command not allowed when used memory > 'maxmemory'.\r\n"}
		}
		return n.well(args)
	})
	require.Equal(t, engine.FailClosed, conformance.Ask(e, conformance.Slide("k", 5, 60_000, 1)).Fail)
	require.Equal(t, "refuses", e.Nodes()[0].State)
	require.Eventually(t, func() bool { return refused.Load() >= 2 }, 10*time.Second, time.Millisecond)
	refuses.Store(false)
	require.Eventually(t, func() bool { return e.Nodes()[0].State == "up" }, 10*time.Second, time.Millisecond)
	require.Equal(t, "1 0", info(t, e, "answered_closed")+" "+info(t, e, "answered_error"))
}

// A node that refused its last call gets one request without cost a second, until it answers one.
func TestNothingIsWrittenBackToANodeThatRefuses(t *testing.T) {
	t.Parallel()
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	var refuses atomic.Bool
	var asked, written atomic.Int64
	refuses.Store(true)
	n.set(func(args []string) reply {
		if args[0] != "fcall" || args[1] != lua.Decide.Name {
			return n.well(args)
		}
		switch cost := args[len(args)-1][:6]; cost {
		case string(bytesOf(6, 0)):
			asked.Add(1)
		case string(bytesOf(6, 1)): // askLocal's
		default:
			written.Add(1)
			assert.Equal(t, string(bytesOf(6, 5)), cost)
			assert.False(t, refuses.Load())
		}
		if refuses.Load() {
			return reply{text: "-MISCONF Redis is configured to save RDB snapshots\r\n"}
		}
		return n.well(args)
	})
	_, local := askFor(e, "k", 500*time.Millisecond)
	require.Equal(t, 5, local)
	require.Eventually(t, func() bool { return asked.Load() >= 2 }, 10*time.Second, time.Millisecond, "it goes on to ask without requests of clients")
	refuses.Store(false)
	require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "1" }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 1, written.Load())
	require.Equal(t, "0", info(t, e, "local_unwritten"))
}

// A master that cannot save its data, or lacks replicas, refuses every function that may write, whatever it admits. RL.INSPECT
// is answered, and RL.NODES says why all else is not.
func TestAKeyIsInspectedOnANodeThatRefusesWrites(t *testing.T) {
	t.Parallel()
	for code, refusal := range map[string]struct{ begin, end func(*redistest.Server) }{
		"MISCONF":    {(*redistest.Server).FailSaves, func(s *redistest.Server) { s.Do("CONFIG", "SET", "stop-writes-on-bgsave-error", "no") }},
		"NOREPLICAS": {func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "1") }, func(s *redistest.Server) { s.Do("CONFIG", "SET", "min-replicas-to-write", "0") }},
	} {
		t.Run(code, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			e := openAlways(t, 5*time.Second, s.URL())
			askAll(t, e, charge("a", 5), acquire("slots", "1", 3), reserve("r", "1", 100, 30))
			refusal.begin(s)
			require.EqualValues(t, 1, askAll(t, e, conformance.Inspect("a"))[0].States[0].Used, "also before anything else was refused")
			p := engine.Pipeline{Requests: []engine.Request{
				conformance.Inspect("a"), charge("a", 5), renew("slots", "1"), conformance.Inspect("r"), release("slots", "1"), settle("r", "1", 20),
				conformance.Reset("a"), conformance.Inspect("a"),
			}}
			e.Do(&p)
			for _, i := range []int{1, 2, 4, 5, 6} {
				require.ErrorContains(t, p.Results[i].Err, code, i)
			}
			for i, used := range map[int]int64{0: 1, 3: 0, 7: 1} {
				require.NoError(t, p.Results[i].Err)
				require.EqualValues(t, used, p.Results[i].States[0].Used)
			}
			require.EqualValues(t, 30, p.Results[3].States[0].Held)
			require.Equal(t, "refuses", e.Nodes()[0].State)
			require.Contains(t, e.Nodes()[0].Why, "it refused the last call: "+code)
			refusal.end(s)
			require.True(t, askAll(t, e, settle("r", "1", 20))[0].Settled.Settled)
			require.EqualValues(t, 3, askAll(t, e, charge("a", 5))[0].Remaining)
			require.Equal(t, "up", e.Nodes()[0].State)
		})
	}
}

// A replica refuses RL.INSPECT as all other requests, because its counts may be old.
func TestAReplicaIsNotInspected(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	askAll(t, e, charge("a", 5))
	s.Do("REPLICAOF", "127.0.0.1", 1)
	require.ErrorContains(t, conformance.Ask(e, conformance.Inspect("a")).Err, "READONLY")
}
