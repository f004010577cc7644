package redis

import (
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// While there is room, each of four nodes does a quarter of the work, and there is no more work than
// without splitting. On a busy machine leases may end between requests, so one of some runs has to show it.
func TestSplitSpreads(t *testing.T) {
	engines, servers := openSplit(t, 1, 4)
	const requests = 2000
	ask := func() {
		for range requests {
			res := conformance.Ask(engines[0], splitRequest("split", limit.Slide, 1, 4, limit.Window{Limit: 1_000_000, Length: 1000}))
			require.NoError(t, res.Err)
			require.True(t, res.Allowed)
		}
	}
	ask() // loads the library
	for range 10 {
		for _, s := range servers {
			s.Do("CONFIG", "RESETSTAT")
		}
		ask()
		var calls []int
		sum := 0
		for _, s := range servers {
			calls = append(calls, functionCalls(t, s))
			sum += calls[len(calls)-1]
		}
		t.Logf("calls by node %v", calls)
		if sum < requests*105/100 && slices.Max(calls)-sum/4 < sum/20 && sum/4-slices.Min(calls) < sum/20 {
			return
		}
	}
	require.Fail(t, "no run spread evenly")
}

// While a shard's node is away, the home and the other shards go on, and no unit is admitted twice:
// its loan counts until it has lapsed.
func TestSplitShardAway(t *testing.T) {
	t.Parallel()
	engines, servers := openSplit(t, 2, 4)
	ask := splitRequest("away", limit.Slide, 1, 4, limit.Window{Limit: 400, Length: 6000})
	ask.Fail = engine.FailError
	node := engines[0].Topology().Locate(ask.Key, 2)
	admitted := 0
	for i := range 200 {
		ask.ID = fmt.Appendf(nil, "%d", i) // so that every shard is asked
		res := conformance.Ask(engines[0], ask)
		require.NoError(t, res.Err)
		if res.Allowed {
			admitted++
		}
	}
	require.Equal(t, 200, admitted)
	servers[node].Kill()
	ask.ID = nil
	failed := 0
	for i := range 400 {
		res := conformance.Ask(engines[i%2], ask)
		switch {
		case res.Err != nil:
			failed++
		case res.Allowed:
			admitted++
		}
	}
	require.Less(t, failed, 10, "only what was under way fails")
	seen := conformance.Ask(engines[0], conformance.Inspect(string(ask.Key)))
	require.NoError(t, seen.Err)
	i := slices.IndexFunc(seen.States[0].Shards, func(p engine.Shard) bool { return p.Number == 2 })
	require.GreaterOrEqual(t, i, 0, "a shard that is away is shown: %+v", seen.States[0])
	lost := seen.States[0].Shards[i]
	require.Equal(t, engine.Shard{Number: 2, Node: servers[node].Addr, Held: lost.Held, Used: lost.Held}, lost)
	require.Positive(t, lost.Held)
	// At best the dead shard has left nothing unused. The rest of the limit is still available.
	require.Greater(t, admitted, 200)
	var last engine.Result
	require.Eventually(t, func() bool { // all of it is back at the latest a lease and a window later
		last = conformance.Ask(engines[1], splitRequest("away", limit.Slide, 0, 4, limit.Window{Limit: 400, Length: 6000}))
		return last.Err == nil && last.Remaining == 400
	}, 20*time.Second, 20*time.Millisecond)
	reset := conformance.Ask(engines[0], conformance.Reset(string(ask.Key)))
	require.NoError(t, reset.Err, "nothing is lent any more")
}

// A denial that is due to the lease of a shard that is away, under a lower limit, is not said to last for longer than
// the lease.
func TestSplitShardAwayWithALowerLimit(t *testing.T) {
	t.Parallel()
	servers, _ := startServers(t, 2)
	var now atomic.Int64
	now.Store(conformance.Base)
	e := openAt(t, now.Load, servers...)
	window := limit.Window{Limit: 50, Length: 86_400_000}
	ask := splitRequest("lower", limit.Slide, 1, 2, window)
	for i := 0; info(t, e, "split_loans") == "0"; i++ {
		ask.ID = fmt.Append(nil, i) // some of these go to another shard than the home
		require.True(t, conformance.Ask(e, ask).Allowed)
	}
	servers[e.Topology().Locate(ask.Key, 1)].Kill()
	ask.ID = nil
	require.Eventually(t, func() bool { // the home has no room left
		res := conformance.Ask(e, ask)
		return res.Fail == engine.FailDefault && !res.Allowed
	}, 10*time.Second, time.Millisecond)
	window.Limit = 100
	raised := splitRequest("lower", limit.Slide, 40, 2, window)
	res := conformance.Ask(e, raised)
	require.False(t, res.Allowed)
	require.LessOrEqual(t, res.RetryAfter, int64(1001))
	now.Add(1001)
	require.True(t, conformance.Ask(e, raised).Allowed)
}

// A shard's node that hangs delays only the requests that were sent to it, and nothing is admitted
// beyond the limit, whichever of them it ran in the end.
func TestSplitShardHangs(t *testing.T) {
	servers, urls := startServers(t, 3)
	e := openOn(t, backend.Config{Backends: urls, Timeout: 200 * time.Millisecond}, Config{MaxQueue: 64})
	ask := splitRequest("hangs", limit.Slide, 1, 3, limit.Window{Limit: 30_000, Length: 3_600_000})
	require.Eventually(t, func() bool { return conformance.Ask(e, ask).Remaining >= 0 }, 10*time.Second, time.Millisecond)
	node := e.Topology().Locate(ask.Key, 1)
	servers[node].Pause()
	var admitted atomic.Int64
	admitted.Store(1)
	var done sync.WaitGroup
	for range 32 {
		done.Add(1)
		go func() { // for its requests
			defer done.Done()
			for range 40 {
				p := &engine.Pipeline{}
				for range 30 {
					*p.Add() = ask
				}
				e.Do(p)
				for _, res := range p.Results {
					if res.Allowed && res.Remaining >= 0 {
						admitted.Add(1)
					}
				}
			}
		}()
	}
	done.Wait()
	servers[node].Resume()
	require.Greater(t, admitted.Load(), int64(10_000), "the home and the other shard went on")
	var all engine.Result
	require.Eventually(t, func() bool {
		all = conformance.Ask(e, splitRequest("hangs", limit.Slide, 0, 3, ask.Windows[0]))
		return all.Remaining >= 0 && !e.Topology().Nodes[node].Down()
	}, 10*time.Second, 10*time.Millisecond)
	t.Logf("%d admitted, %d remain", admitted.Load(), all.Remaining)
	require.LessOrEqual(t, admitted.Load()+all.Remaining, int64(30_000))
}

// A reset that cannot reach a shard is an error.
func TestSplitResetAway(t *testing.T) {
	engines, servers := openSplit(t, 1, 3)
	ask := splitRequest("reset", limit.Slide, 1, 3, limit.Window{Limit: 300, Length: 60_000})
	for i := range 60 {
		ask.ID = fmt.Appendf(nil, "%d", i) // so that every shard is asked
		require.True(t, conformance.Ask(engines[0], ask).Allowed)
	}
	node := engines[0].Topology().Locate(ask.Key, 1)
	servers[node].Kill()
	res := conformance.Ask(engines[0], conformance.Reset(string(ask.Key)))
	require.ErrorContains(t, res.Err, "UNAVAILABLE "+servers[node].Addr)
}

// A proxy that crashes can make units unusable for at most a lease and a window, and never makes more
// units available.
func TestSplitProxyCrash(t *testing.T) {
	var through []string
	var links []*faultnet.Proxy
	servers, _ := startServers(t, 3)
	for _, s := range servers {
		p := faultnet.Start(t, s.Addr)
		through, links = append(through, "redis://"+p.Addr), append(links, p)
	}
	crashing := openOn(t, backend.Config{Backends: through, Timeout: 200 * time.Millisecond}, Config{})
	window := limit.Window{Limit: 500, Length: 1000}
	stop, ended := make(chan struct{}), make(chan struct{})
	began := time.Now()
	var admitted atomic.Int64
	go func() { // until stop is closed
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				if res := conformance.Ask(crashing, splitRequest("crash", limit.Slide, 1, 3, window)); res.Allowed && res.Remaining >= 0 {
					admitted.Add(1)
				}
			}
		}
	}()
	for i := 0; i < 10 || admitted.Load() == 0; i++ {
		for _, p := range links {
			p.Cut()
		}
		time.Sleep(time.Duration(20+i) * time.Millisecond) // some requests get through between cuts
	}
	close(stop)
	<-ended
	require.LessOrEqual(t, admitted.Load(), 500*(int64(time.Since(began)/time.Second)+1)) // windows that the run has touched
	after := openOn(t, backend.Config{Backends: through, Timeout: 5 * time.Second}, Config{})
	require.Eventually(t, func() bool {
		res := conformance.Ask(after, splitRequest("crash", limit.Slide, 0, 3, window))
		return res.Err == nil && res.Remaining == 500
	}, 10*time.Second, 20*time.Millisecond)
	got := 0
	for range 600 {
		if res := conformance.Ask(after, splitRequest("crash", limit.Slide, 1, 3, limit.Window{Limit: 500, Length: 3_600_000})); res.Allowed {
			got++
		}
	}
	require.Equal(t, 500, got)
}

// A key with too many calls for one node is split, and is whole again when it cools.
func TestSplitByLoad(t *testing.T) {
	t.Parallel()
	var log proxytest.LockedBuffer
	_, urls := startServers(t, 3)
	e := openOn(t, backend.Config{Backends: urls, Timeout: time.Hour}, Config{
		Settings: Settings{HotThreshold: 100, HotKeys: []split.Rule{{Glob: "rule:*", Shards: 2}}}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	var ahead atomic.Int64 // of the engine's clock
	e.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	shards := func(key string) int { return e.splits.Shards([]byte(key)) }
	ask := splitRequest("load", limit.Slide, 1, 0, limit.Window{Limit: 100_000, Length: 60_000})
	require.True(t, conformance.Ask(e, ask).Allowed)
	require.Equal(t, 1, shards("load"))
	require.Eventually(t, func() bool {
		return conformance.Ask(e, ask).Allowed && shards("load") == 3
	}, 20*time.Second, 100*time.Microsecond)
	small := splitRequest("small", limit.Slide, 1, 0, limit.Window{Limit: 500, Length: 100})
	for range 300 {
		conformance.Ask(e, small)
	}
	require.Equal(t, 1, shards("small"), "fewer than 256 units a shard")
	require.True(t, conformance.Ask(e, splitRequest("rule:a", limit.Slide, 1, 0, limit.Window{Limit: 10, Length: 1000})).Allowed)
	require.Equal(t, 2, shards("rule:a"))

	// The engine's clock runs ahead. The nodes' do not: their rates fall by themselves. The engine may
	// still know the shards, because the home reports what it has lent.
	require.Eventually(t, func() bool {
		conformance.Ask(e, ask)
		ahead.Add(int64(500 * time.Millisecond))
		time.Sleep(50 * time.Millisecond) // so that few calls are made
		return info(t, e, "splits_by_load") == "0"
	}, 30*time.Second, time.Millisecond)
	require.Equal(t, 1, strings.Count(log.String(), `msg="splitting a key because of its load"`))
	require.Equal(t, 1, strings.Count(log.String(), `msg="no longer splitting a key because of its load"`))
	loans, err := strconv.Atoi(info(t, e, "split_loans"))
	require.NoError(t, err)
	require.Positive(t, loans)
}

// On a cluster the shards lie on different masters, and the limit is as exact.
func TestSplitCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, nil)
	e := openOn(t, backend.Config{Backends: []string{c.URL()}, Timeout: 5 * time.Second}, Config{})
	ready(t, e, "a", "b", "c", "d", "e", "f", "g", "h")
	for _, most := range []int64{100, 2} {
		key, admitted := fmt.Sprintf("cluster:%d", most), int64(0)
		for i := range 2 * most {
			ask := splitRequest(key, limit.Slide, 1, 3, limit.Window{Limit: most, Length: 3_600_000})
			ask.ID = fmt.Appendf(nil, "%d", i) // so that every shard is asked
			res := conformance.Ask(e, ask)
			require.NoError(t, res.Err)
			require.Equal(t, admitted < most, res.Allowed)
			if res.Allowed {
				admitted++
			}
		}
		res := conformance.Ask(e, conformance.Inspect(key))
		require.NoError(t, res.Err)
		require.Len(t, res.States, 1)
		require.Equal(t, most, res.States[0].Used)
		nodes := map[string]bool{}
		for _, p := range res.States[0].Shards {
			nodes[p.Node] = true
		}
		if most > 2 {
			require.Len(t, nodes, 3)
		}
		require.True(t, conformance.Ask(e, conformance.Reset(key)).Reset)
		require.True(t, conformance.Ask(e, splitRequest(key, limit.Slide, 1, 3, limit.Window{Limit: most, Length: 3_600_000})).Allowed)
	}
}
