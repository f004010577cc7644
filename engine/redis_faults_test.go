package engine

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// lateness is how much later than its deadline a test lets an answer come: on a busy
// machine far more than the few ms it should be, and less than what it waits for.
const lateness = time.Second

// fault is something that befalls a node.
type fault struct {
	name string
	args []string // of the server
	// begin starts it; end, if not nil, ends it, else it ends by itself.
	begin, end func(t *testing.T, s *redistest.Server, p *faultnet.Proxy)
	why        string // part of what UNAVAILABLE says
	up         bool   // the node answers, to each request, that it cannot
}

func config(parameter, value string) func(*testing.T, *redistest.Server, *faultnet.Proxy) {
	return func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Do("CONFIG", "SET", parameter, value) }
}

func faults(f faultnet.Faults) func(*testing.T, *redistest.Server, *faultnet.Proxy) {
	return func(_ *testing.T, _ *redistest.Server, p *faultnet.Proxy) { p.Set(f) }
}

// later runs a command that takes a while.
func later(args ...any) func(*testing.T, *redistest.Server, *faultnet.Proxy) {
	return func(t *testing.T, s *redistest.Server, _ *faultnet.Proxy) {
		var done sync.WaitGroup
		t.Cleanup(done.Wait)
		done.Add(1)
		go func() { // until the command is answered
			defer done.Done()
			_ = s.Client.Conn().Do(context.Background(), args...).Err()
		}()
	}
}

const slowScript = `local t = redis.call('TIME') repeat local n = redis.call('TIME')
	until (n[1] - t[1]) * 1000000 + n[2] - t[2] > 1500000`

var nodeFaults = []fault{
	{
		name: "refuses", why: "connection",
		begin: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Kill() },
		end:   func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Run() },
	}, {
		name: "hangs", why: "no answer in time",
		begin: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Pause() },
		end:   func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Resume() },
	},
	{name: "requests are lost", why: "no answer in time", begin: faults(faultnet.Faults{SwallowRequests: true}), end: faults(faultnet.Faults{})},
	{name: "replies are lost", why: "no answer in time", begin: faults(faultnet.Faults{SwallowReplies: true}), end: faults(faultnet.Faults{})},
	{name: "replies are late", why: "no answer in time", begin: faults(faultnet.Faults{Delay: 600 * time.Millisecond}), end: faults(faultnet.Faults{})},
	{name: "slow script", begin: later("EVAL", slowScript, 0)},
	{
		name: "slow script that is admitted to", why: "BUSY", args: []string{"--busy-reply-threshold", "20"},
		begin: later("EVAL", slowScript, 0),
	},
	{
		name: "loads", why: "LOADING", args: []string{"--enable-debug-command", "yes", "--loading-process-events-interval-bytes", "1024"},
		begin: func(t *testing.T, s *redistest.Server, p *faultnet.Proxy) {
			s.Do("DEBUG", "POPULATE", 3000)
			s.Do("CONFIG", "SET", "key-load-delay", 1000) // us
			later("DEBUG", "RELOAD")(t, s, p)
		},
	}, {
		name: "is a replica", why: "READONLY",
		begin: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Do("REPLICAOF", "127.0.0.1", 1) },
		end:   func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) { s.Do("REPLICAOF", "NO", "ONE") },
	},
	{name: "is out of memory", why: "OOM", up: true, begin: config("maxmemory", "1"), end: config("maxmemory", "0")},
	{name: "lacks replicas", why: "NOREPLICAS", up: true, begin: config("min-replicas-to-write", "1"), end: config("min-replicas-to-write", "0")},
	{
		name: "does not permit", why: "NOPERM", up: true,
		begin: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "-evalsha")
		},
		end: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "+evalsha")
		},
	}, {
		name: "asks for a password", why: "NOAUTH",
		begin: func(t *testing.T, s *redistest.Server, p *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "resetpass", ">secret")
			p.Cut()
		},
		end: func(t *testing.T, s *redistest.Server, p *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "nopass")
		},
	},
}

// Whatever befalls a node, every request is answered in time, by policy; the node is
// noticed and not waited for; and it is back by itself.
func TestNodeFaults(t *testing.T) {
	for _, f := range nodeFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const timeout = 250 * time.Millisecond
			s := redistest.Start(t, f.args...)
			p := faultnet.Start(t, s.Addr)
			e := openBackend(t, timeout, "redis://"+p.Addr)
			ready(t, e, "k")
			f.begin(t, s, p)
			var worst time.Duration
			shown := false
			bad := func() bool {
				from := time.Now()
				q := &Pipeline{}
				for i := range 4 {
					*q.Add() = charge(fmt.Sprintf("k%d", i), 1_000_000)
				}
				e.Do(q)
				worst = max(worst, time.Since(from))
				err := q.Results[0].Err
				if err == nil {
					return false
				}
				if !strings.HasPrefix(err.Error(), "UNAVAILABLE "+p.Addr+": ") {
					t.Error(err)
				}
				shown = shown || strings.Contains(err.Error(), f.why)
				return true
			}
			n := e.nodes[0]
			require.Eventually(t, func() bool {
				bad()
				return shown && (f.up || n.health.down())
			}, 10*time.Second, time.Millisecond, "the fault shows")
			if f.up {
				require.False(t, n.health.down())
			}
			if f.end != nil {
				for range 200 {
					require.True(t, bad())
				}
				f.end(t, s, p)
			}
			from := time.Now()
			require.Eventually(t, func() bool { return !bad() && !n.health.down() }, 10*time.Second, time.Millisecond, "it is back")
			t.Logf("worst answer %s, back after %s", worst.Round(time.Millisecond), time.Since(from).Round(time.Millisecond))
			require.Less(t, worst, timeout+lateness)
		})
	}
}
