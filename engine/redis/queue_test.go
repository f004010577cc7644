package redis

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// fault is a way in which a node fails.
type fault struct {
	name string
	args []string // of the server
	// begin starts the fault. end, if not nil, ends it; otherwise it ends by itself.
	begin, end func(t *testing.T, s *redistest.Server, p *faultnet.Proxy)
	why        string // part of what UNAVAILABLE says
	up         bool   // the node answers, to each request, that it cannot
}

func set(parameter, value string) func(*testing.T, *redistest.Server, *faultnet.Proxy) {
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
	{
		name: "has too many clients", why: "max number of clients",
		begin: func(t *testing.T, s *redistest.Server, p *faultnet.Proxy) {
			s.Do("CONFIG", "SET", "maxclients", "1")
			p.Cut()
		},
		end: set("maxclients", "1000"),
	},
	{name: "is out of memory", why: "OOM", up: true, begin: set("maxmemory", "1"), end: set("maxmemory", "0")},
	{name: "lacks replicas", why: "NOREPLICAS", up: true, begin: set("min-replicas-to-write", "1"), end: set("min-replicas-to-write", "0")},
	{
		name: "does not permit", why: "NOPERM", up: true,
		begin: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "-fcall", "-evalsha")
		},
		end: func(_ *testing.T, s *redistest.Server, _ *faultnet.Proxy) {
			s.Do("ACL", "SETUSER", "default", "+fcall", "+evalsha")
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

// However a node fails, every request is answered in time by policy, the failure is noticed so that
// nothing waits for the node, and the node is used again once it recovers.
func TestNodeFaults(t *testing.T) {
	for _, f := range nodeFaults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			const timeout = 250 * time.Millisecond
			s := redistest.Start(t, f.args...)
			p := faultnet.Start(t, s.Addr)
			e := openAlways(t, timeout, "redis://"+p.Addr)
			ready(t, e, "k")
			f.begin(t, s, p)
			var took waits
			shown := false
			bad := func() bool {
				from := time.Now()
				q := &engine.Pipeline{}
				for i := range 4 {
					*q.Add() = charge(fmt.Sprintf("k%d", i), 1_000_000)
				}
				e.Do(q)
				took.since(from)
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
			n := e.Topology().Nodes[0]
			require.Eventually(t, func() bool {
				bad()
				return shown && (f.up || n.Down())
			}, 10*time.Second, time.Millisecond, "the fault shows")
			if f.up {
				require.False(t, n.Down())
			}
			if f.end != nil {
				for range 200 {
					require.True(t, bad())
				}
				f.end(t, s, p)
			}
			from := time.Now()
			require.Eventually(t, func() bool { return !bad() && !n.Down() }, 10*time.Second, time.Millisecond, "it is back")
			t.Logf("worst answer %s, back after %s", took.worst(), time.Since(from).Round(time.Millisecond))
			took.requireInTime(t, timeout)
		})
	}
}

// Requests to healthy nodes do not wait for a node that has stopped: neither at first, when requests
// to it wait, nor later, when it is known to be down.
func TestHealthyNodesDoNotWaitForAStoppedNode(t *testing.T) {
	t.Parallel()
	const timeout = 40 * time.Second
	nodes, urls := startServers(t, 3)
	e := openAlways(t, timeout, urls...)
	keys := keysOn(e)
	ready(t, e, keys...)
	stopped := e.Topology().Nodes[2]
	nodes[2].Pause()
	defer nodes[2].Resume()
	var waiting sync.WaitGroup
	for range 2 {
		waiting.Go(func() { conformance.Ask(e, charge(keys[2], 1_000_000)) }) // until the node is resumed
	}
	askHealthy := func() {
		var done sync.WaitGroup
		for _, key := range slices.Repeat(keys[:2], 4) {
			done.Go(func() {
				for range 200 {
					from := time.Now()
					if err := conformance.Ask(e, charge(key, 1_000_000)).Err; err != nil {
						t.Error(err)
					}
					if took := time.Since(from); took > timeout/2 {
						t.Errorf("a request about a key of a healthy node took %s", took)
					}
				}
			})
		}
		done.Wait()
	}
	askHealthy()
	require.False(t, stopped.Down())
	nodes[2].Resume()
	waiting.Wait()
	e.fleet.SetTimeout(100 * time.Millisecond)
	nodes[2].Pause()
	require.Eventually(t, func() bool { return conformance.Ask(e, charge(keys[2], 1)).Err != nil && stopped.Down() }, 10*time.Second, time.Millisecond)
	e.fleet.SetTimeout(timeout)
	ready(t, e, keys[:2]...)
	askHealthy()
	require.True(t, stopped.Down())
}

// A panic costs its batch an answer by policy, and is logged with its stack. The next
// batch works, whether a caller or a worker asks the node.
func TestPanicInABatch(t *testing.T) {
	n := startFake(t)
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := openOn(t, backend.Config{Backends: []string{"redis://" + n.addr}, Timeout: 5 * time.Second, Logger: logger}, Config{Logger: logger})
	var broken atomic.Bool
	e.nodeClock = func() int64 {
		if broken.Load() {
			panic("at the disco")
		}
		return time.Now().UnixMilli()
	}
	pipeline := func() *engine.Pipeline {
		p := &engine.Pipeline{}
		for policy := engine.FailClosed; int(policy) < engine.FailPolicies; policy++ {
			r := p.Add()
			*r = charge("k", 100) // LOCAL admits one for each pipeline
			r.Fail = policy
		}
		*p.Add() = conformance.Inspect("k")
		*p.Add() = conformance.Reset("k")
		*p.Add() = splitRequest("split", limit.Slide, 1, 3, limit.Window{Limit: 10, Length: 1000})
		e.Do(p)
		return p
	}
	require.True(t, conformance.Ask(e, charge("k", 10)).Allowed)

	broken.Store(true)
	ask := func() {
		p := pipeline()
		for i, allowed := range []bool{false, true, true, false, false, false, false} {
			res := p.Results[i]
			if i >= 3 && i < 6 { // ERROR, and what has no policy
				why := "UNAVAILABLE " + n.addr + ": internal error: see the log"
				if res.Err == nil || res.Err.Error() != why {
					t.Errorf("request %d: %v", i, res.Err)
				}
				continue
			}
			if res.Err != nil || res.Allowed != allowed || res.Remaining != -1 {
				t.Errorf("request %d: %+v", i, res)
			}
		}
	}
	ask() // on this goroutine
	var done sync.WaitGroup
	for range 16 {
		done.Add(1)
		go func() { // for one pipeline
			defer done.Done()
			ask() // by workers, too
		}()
	}
	done.Wait()
	require.Contains(t, log.String(), `msg="internal error" doing="asking `+n.addr+`" panic="at the disco" stack=`)
	require.Contains(t, log.String(), "TestPanicInABatch")
	require.Equal(t, backend.Up, e.Topology().Nodes[0].Health(), "the node is not to blame")

	broken.Store(false)
	p := pipeline()
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
		require.GreaterOrEqual(t, p.Results[i].Remaining, int64(0))
	}
}

// Requests that a batch has set aside to be sent again are also answered when a panic ends the batch.
func TestPanicAnswersWhatWasMisrouted(t *testing.T) {
	n := startFake(t)
	logger := slog.New(slog.DiscardHandler)
	e := openOn(t, backend.Config{Backends: []string{"redis://" + n.addr}, Logger: logger}, Config{Logger: logger})
	e.nodeClock = func() int64 { panic("at the disco") }
	r, wait := charge("k", 10), waiter{done: make(chan struct{}, 1)}
	results := make([]engine.Result, 3)
	at := e.elapsed()
	wait.left.Store(3)
	q := e.queues.OpenAll().Queues[0]
	b := &batch{
		parts:      q.parts,
		q:          q,
		misrouted:  []item{{Item: backlog.Item{At: at}, task: entry{}, req: &r, res: &results[1], wait: &wait, misrouted: true}},
		redirected: map[*queue][]item{nil: {{Item: backlog.Item{At: at}, task: entry{}, req: &r, res: &results[2], wait: &wait}}},
	}
	b.Serve([]item{{Item: backlog.Item{At: at}, task: entry{}, req: &r, res: &results[0], wait: &wait}}, 0)
	<-wait.done
	for _, res := range results {
		require.ErrorContains(t, res.Err, "internal error")
	}
}

// If a policy panics, only its own request gets an error, also if the request has waited too long or was
// not accepted by the queue. Every pipeline is answered once.
func TestPanicInAPolicy(t *testing.T) {
	for name, answer := range map[string]func(q *queue, items []item){
		"batch": func(q *queue, items []item) { (&batch{parts: q.parts, q: q}).Serve(items, 0) },
		"closed queue": func(q *queue, items []item) {
			require.NoError(t, q.Close())
			q.submit(items, 0)
		},
	} {
		t.Run(name, func(t *testing.T) { panicInAPolicy(t, answer) })
	}
}

func panicInAPolicy(t *testing.T, answer func(q *queue, items []item)) {
	n := startFake(t)
	logger := slog.New(slog.DiscardHandler)
	e := openOn(t, backend.Config{Backends: []string{"redis://" + n.addr}, Timeout: time.Minute, Logger: logger}, Config{Logger: logger})
	now := e.elapsed()
	late := now - time.Hour
	good, bad := charge("k", 10), charge("k", 10)
	good.Fail, bad.Fail = engine.FailOpen, engine.FailPolicy(engine.FailPolicies) // no such policy
	requests := []*engine.Request{&good, &bad, &good, &good}
	results, waits := make([]engine.Result, len(requests)), make([]waiter, len(requests))
	items := make([]item, len(requests))
	for i, at := range []time.Duration{late, late, late, now} {
		waits[i].done = make(chan struct{}, 2)
		waits[i].left.Store(1)
		items[i] = item{Item: backlog.Item{At: at}, task: entry{}, req: requests[i], res: &results[i], wait: &waits[i]}
	}
	answer(e.queues.OpenAll().Queues[0], items)
	for i := range results {
		require.Len(t, waits[i].done, 1, "request %d", i)
		if requests[i] == &bad {
			require.Equal(t, &engine.Unavailable{Node: n.addr, Why: "internal error: see the log", MaybeApplied: true}, results[i].Err)
			continue
		}
		require.NoError(t, results[i].Err)
		require.True(t, results[i].Allowed, "request %d", i)
	}
}

// A long pipeline is asked in runs, each with a deadline of its own: it may take longer than the timeout.
func TestALongPipelineMayTakeLongerThanTheTimeout(t *testing.T) {
	t.Parallel()
	const timeout = 3 * time.Second
	n := startFake(t)
	e := openAlways(t, timeout, "redis://"+n.addr)
	ready(t, e, "k")
	n.set(func(args []string) reply {
		if args[0] == "fcall" {
			time.Sleep(15 * time.Millisecond) // the work of a node
		}
		return n.well(args)
	})
	p := &engine.Pipeline{}
	for i := range 15 * backlog.MaxItems {
		*p.Add() = conformance.Reset(fmt.Sprint("key", i))
	}
	began := time.Now()
	e.Do(p)
	require.Greater(t, time.Since(began), timeout)
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err, i)
	}
	require.True(t, allUp(e))
}
