package engine

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// evalshas tells how often each node ran a script.
func evalshas(t *testing.T, servers []*redistest.Server) (calls []int64) {
	for _, s := range servers {
		text, err := s.Client.Info(context.Background(), "commandstats").Result()
		require.NoError(t, err)
		n := int64(0)
		for _, line := range strings.Split(text, "\r\n") {
			if rest, found := strings.CutPrefix(line, "cmdstat_evalsha:calls="); found {
				digits, _, _ := strings.Cut(rest, ",")
				n, err = strconv.ParseInt(digits, 10, 64)
				require.NoError(t, err)
			}
		}
		calls = append(calls, n)
	}
	return calls
}

// With room, every node of four does a quarter of the work, and no more than there was.
func TestSplitSpreads(t *testing.T) {
	engines, servers := splitEngines(t, 1, 4)
	const requests = 2000
	ask := func() {
		for range requests {
			res := do(engines[0], splitAsk("split", OpSlide, 1, 4, Window{1_000_000, 1000}))
			require.NoError(t, res.Err)
			require.True(t, res.Allowed)
		}
	}
	ask() // loads the scripts
	for _, s := range servers {
		s.Do("CONFIG", "RESETSTAT")
	}
	ask()
	calls, sum := evalshas(t, servers), int64(0)
	for _, n := range calls {
		sum += n
	}
	t.Logf("calls by node %v", calls)
	require.Less(t, sum, int64(requests*105/100))
	for _, n := range calls {
		require.InDelta(t, sum/4, n, float64(sum)/20)
	}
}

// While a part's node is away the home and the others go on, and nothing is admitted
// twice: what was lent to it counts until it has lapsed.
func TestSplitPartAway(t *testing.T) {
	engines, servers := splitEngines(t, 2, 4)
	ask := splitAsk("away", OpSlide, 1, 4, Window{400, 1000})
	ask.Fail = PolicyError
	top := engines[0].topology.Load()
	node := top.locate(ask.Key, 2)
	admitted := 0
	for i := range 200 {
		ask.ID = fmt.Appendf(nil, "%d", i) // so that every part is asked
		res := do(engines[0], ask)
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
		res := do(engines[i%2], ask)
		switch {
		case res.Err != nil:
			failed++
		case res.Allowed:
			admitted++
		}
	}
	require.Less(t, failed, 10, "only what was under way fails")
	seen := do(engines[0], Request{Op: OpInspect, Key: ask.Key})
	require.NoError(t, seen.Err)
	i := slices.IndexFunc(seen.States[0].Parts, func(p Part) bool { return p.Part == 2 })
	require.GreaterOrEqual(t, i, 0, "a part that is away is shown: %+v", seen.States[0])
	lost := seen.States[0].Parts[i]
	require.Equal(t, Part{Part: 2, Node: servers[node].Addr, Held: lost.Held, Used: lost.Held}, lost)
	require.Positive(t, lost.Held)
	// At best the dead part has left nothing unused; the rest of the limit goes on.
	require.Greater(t, admitted, 200)
	var last Result
	require.Eventually(t, func() bool { // all of it is back at the latest a lease and a window later
		last = do(engines[1], splitAsk("away", OpSlide, 0, 4, Window{400, 1000}))
		return last.Err == nil && last.Remaining == 400
	}, 10*time.Second, 20*time.Millisecond)
	reset := do(engines[0], Request{Op: OpReset, Key: ask.Key})
	require.NoError(t, reset.Err, "nothing is lent any more")
}

// A part's node that hangs holds up only what was sent to it, and nothing is admitted
// past the limit, whatever it ran in the end.
func TestSplitPartHangs(t *testing.T) {
	var servers []*redistest.Server
	var urls []string
	for range 3 {
		s := redistest.Start(t)
		servers, urls = append(servers, s), append(urls, s.URL())
	}
	e, err := OpenRedis(RedisConfig{Backends: urls, Timeout: 200 * time.Millisecond, MaxWaiting: 64})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ask := splitAsk("hangs", OpSlide, 1, 3, Window{30_000, 3_600_000})
	require.Eventually(t, func() bool { return do(e, ask).Remaining >= 0 }, 10*time.Second, time.Millisecond)
	node := e.topology.Load().locate(ask.Key, 1)
	servers[node].Pause()
	var admitted atomic.Int64
	admitted.Store(1)
	var done sync.WaitGroup
	for range 32 {
		done.Add(1)
		go func() { // for its requests
			defer done.Done()
			for range 40 {
				p := &Pipeline{}
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
	require.Greater(t, admitted.Load(), int64(10_000), "the home and the other part went on")
	var all Result
	require.Eventually(t, func() bool {
		all = do(e, splitAsk("hangs", OpSlide, 0, 3, ask.Windows[0]))
		return all.Remaining >= 0 && !e.topology.Load().nodes[node].health.down()
	}, 10*time.Second, 10*time.Millisecond)
	t.Logf("%d admitted, %d remain", admitted.Load(), all.Remaining)
	require.LessOrEqual(t, admitted.Load()+all.Remaining, int64(30_000))
}

// A reset that cannot reach a part says so, and does not pretend.
func TestSplitResetAway(t *testing.T) {
	engines, servers := splitEngines(t, 1, 3)
	ask := splitAsk("reset", OpSlide, 1, 3, Window{300, 60_000})
	for i := range 60 {
		ask.ID = fmt.Appendf(nil, "%d", i) // so that every part is asked
		require.True(t, do(engines[0], ask).Allowed)
	}
	node := engines[0].topology.Load().locate(ask.Key, 1)
	servers[node].Kill()
	res := do(engines[0], Request{Op: OpReset, Key: ask.Key})
	require.ErrorContains(t, res.Err, "UNAVAILABLE "+servers[node].Addr)
}

// A proxy that ends in the middle of everything takes rights with it for a lease and a
// window at most, and never makes any.
func TestSplitProxyCrash(t *testing.T) {
	var through []string
	var links []*faultnet.Proxy
	for range 3 {
		s := redistest.Start(t)
		p := faultnet.Start(t, s.Addr)
		through, links = append(through, "redis://"+p.Addr), append(links, p)
	}
	crashing, err := OpenRedis(RedisConfig{Backends: through, Timeout: 200 * time.Millisecond})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, crashing.Close()) })
	window := Window{500, 1000}
	stop, ended := make(chan struct{}), make(chan int)
	go func() { // until stop is closed
		admitted := 0
		for {
			select {
			case <-stop:
				ended <- admitted
				return
			default:
				if res := do(crashing, splitAsk("crash", OpSlide, 1, 3, window)); res.Allowed && res.Remaining >= 0 {
					admitted++
				}
			}
		}
	}()
	for range 10 {
		for _, p := range links {
			p.Cut()
		}
		time.Sleep(20 * time.Millisecond) // some requests get through between cuts
	}
	close(stop)
	admitted := <-ended
	require.Positive(t, admitted)
	require.LessOrEqual(t, admitted, 500*2) // the run is shorter than two windows
	after, err := OpenRedis(RedisConfig{Backends: through, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, after.Close()) })
	require.Eventually(t, func() bool {
		res := do(after, splitAsk("crash", OpSlide, 0, 3, window))
		return res.Err == nil && res.Remaining == 500
	}, 10*time.Second, 20*time.Millisecond)
	got := 0
	for range 600 {
		if res := do(after, splitAsk("crash", OpSlide, 1, 3, Window{500, 3_600_000})); res.Allowed {
			got++
		}
	}
	require.Equal(t, 500, got)
}

// A key with too many calls for one node is split, and let go when it cools.
func TestSplitByLoad(t *testing.T) {
	var log bytes.Buffer
	var urls []string
	for range 3 {
		urls = append(urls, redistest.Start(t).URL())
	}
	now := time.Now()
	e, err := OpenRedis(RedisConfig{Backends: urls, Timeout: time.Hour, HotThreshold: 100,
		HotKeys: []HotRule{{"rule:*", 2}}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	parts := func(key string) int { return e.splits.parts([]byte(key)) }
	ask := splitAsk("load", OpSlide, 1, 0, Window{100_000, 60_000})
	require.True(t, do(e, ask).Allowed)
	require.Equal(t, 1, parts("load"))
	require.Eventually(t, func() bool {
		return do(e, ask).Allowed && parts("load") == 3
	}, 20*time.Second, 100*time.Microsecond)
	small := splitAsk("small", OpSlide, 1, 0, Window{500, 100})
	for range 300 {
		do(e, small)
	}
	require.Equal(t, 1, parts("small"), "fewer than 256 units a part")
	require.True(t, do(e, splitAsk("rule:a", OpSlide, 1, 0, Window{10, 1000})).Allowed)
	require.Equal(t, 2, parts("rule:a"))

	// The engine's own clock jumps, the nodes' go on: rates fall by themselves.
	require.Eventually(t, func() bool {
		do(e, ask)
		time.Sleep(50 * time.Millisecond) // so that few calls are made
		e.splits.mu.Lock()
		defer e.splits.mu.Unlock()
		l := e.splits.layouts["load"] // there may be one: the home tells of what is lent still
		return l == nil || !l.load
	}, 30*time.Second, time.Millisecond)
	require.WithinDuration(t, now, time.Now(), time.Minute)
	require.Equal(t, 1, strings.Count(log.String(), "a key is split by load"))
	require.Equal(t, 1, strings.Count(log.String(), "has cooled"))
	fields := map[string]string{}
	for _, f := range e.Info() {
		fields[f.Name] = f.Value
	}
	n, err := strconv.Atoi(fields["split_loans"])
	require.NoError(t, err)
	require.Positive(t, n)
}

// On a cluster the parts lie on different masters, and the limit is as exact.
func TestSplitCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	e, err := OpenRedis(RedisConfig{Backends: []string{c.URL()}, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ready(t, e, "a", "b", "c", "d", "e", "f", "g", "h")
	for _, limit := range []int64{100, 2} {
		key, admitted := fmt.Sprintf("cluster:%d", limit), int64(0)
		for i := range 2 * limit {
			ask := splitAsk(key, OpSlide, 1, 3, Window{limit, 3_600_000})
			ask.ID = fmt.Appendf(nil, "%d", i) // so that every part is asked
			res := do(e, ask)
			require.NoError(t, res.Err)
			require.Equal(t, admitted < limit, res.Allowed)
			if res.Allowed {
				admitted++
			}
		}
		res := do(e, Request{Op: OpInspect, Key: []byte(key)})
		require.NoError(t, res.Err)
		require.Len(t, res.States, 1)
		require.Equal(t, limit, res.States[0].Used)
		nodes := map[string]bool{}
		for _, p := range res.States[0].Parts {
			nodes[p.Node] = true
		}
		if limit > 2 {
			require.Len(t, nodes, 3)
		}
		require.True(t, do(e, Request{Op: OpReset, Key: []byte(key)}).Reset)
		require.True(t, do(e, splitAsk(key, OpSlide, 1, 3, Window{limit, 3_600_000})).Allowed)
	}
}
