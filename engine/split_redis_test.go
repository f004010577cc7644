package engine

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// splitEngines opens engines, as so many proxies, on the same nodes.
func splitEngines(t *testing.T, engines, nodes int) ([]*Redis, []*redistest.Server) {
	var servers []*redistest.Server
	var urls []string
	for range nodes {
		s := redistest.Start(t)
		servers, urls = append(servers, s), append(urls, s.URL())
	}
	var out []*Redis
	for range engines {
		e, err := OpenRedis(RedisConfig{Backends: urls, Timeout: 5 * time.Second})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		out = append(out, e)
	}
	return out, servers
}

func splitAsk(key string, op Op, cost int64, shards int, windows ...Window) Request {
	r := Request{Op: op, Key: []byte(key), Cost: cost, Buckets: 1, Shards: shards, N: len(windows)}
	if op == OpCounter {
		r.Buckets, r.Strict = 10, true
	}
	copy(r.Windows[:], windows)
	return r
}

// One by one, exactly the limit is admitted, whoever asks and whatever the limit;
// questions without cost are exact, and a reset forgets all of it.
func TestSplitOneByOne(t *testing.T) {
	engines, _ := splitEngines(t, 3, 4)
	one := func() *Redis { return engines[rand.IntN(len(engines))] }
	for i, c := range []struct {
		limit, cost int64
		shards      int
		op          Op
	}{{101, 1, 4, OpSlide}, {3, 1, 4, OpSlide}, {1000, 900, 4, OpSlide}, {97, 5, 7, OpSlide}, {64, 1, 4, OpCounter}, {50, 1, 2, OpFixed}} {
		key := fmt.Sprintf("one:%d", i)
		for round := range 2 {
			admitted := int64(0)
			for range 2*c.limit/c.cost + 3 {
				r := splitAsk(key, c.op, c.cost, c.shards, Window{c.limit, 3_600_000})
				if rand.IntN(4) == 0 {
					r.ID = fmt.Appendf(nil, "%d", rand.IntN(100))
				}
				res := do(one(), r)
				require.NoError(t, res.Err)
				require.Equal(t, admitted+c.cost <= c.limit, res.Allowed, "%+v round %d: %d admitted, %+v", c, round, admitted, res.Decision)
				if res.Allowed {
					admitted += c.cost
				}
				require.Equal(t, !res.Allowed, res.RetryAfter > 0)
				if rand.IntN(8) == 0 {
					peek := do(one(), splitAsk(key, c.op, 0, c.shards, Window{c.limit, 3_600_000}))
					require.NoError(t, peek.Err)
					require.Equal(t, c.limit-admitted, peek.Remaining)
					require.Equal(t, admitted < c.limit, peek.Allowed)
				}
			}
			states := do(one(), Request{Op: OpInspect, Key: []byte(key)})
			require.NoError(t, states.Err)
			require.Len(t, states.States, 1)
			require.Equal(t, admitted, states.States[0].Used)
			require.Equal(t, c.limit, states.States[0].Limit)
			require.Equal(t, c.limit-admitted, states.States[0].Remaining)
			reset := do(one(), Request{Op: OpReset, Key: []byte(key)})
			require.NoError(t, reset.Err)
			require.True(t, reset.Reset)
			for _, e := range engines {
				e.denied.forgetAll() // the message may take its time
			}
		}
	}
}

// timely is one that a proxy answered: it was charged at some time between from and to.
type timely struct {
	from, to time.Duration
	cost     int64
	limit    int64 // that it brought
}

// TestSplitWindow sends more and less than the limit from three proxies at once and
// counts, in every window of real time, what was certainly admitted within it.
func TestSplitWindow(t *testing.T) {
	engines, _ := splitEngines(t, 3, 4)
	for _, c := range []struct {
		name    string
		limit   int64
		window  int64
		demand  float64
		cost    int64
		op      Op
		changes bool
	}{
		{name: "half", limit: 1003, window: 500, demand: 0.5, cost: 1, op: OpSlide},
		{name: "even", limit: 1003, window: 500, demand: 1, cost: 1, op: OpSlide},
		{name: "thrice", limit: 1003, window: 500, demand: 3, cost: 1, op: OpSlide},
		{name: "fewer than parts", limit: 3, window: 200, demand: 3, cost: 1, op: OpSlide},
		{name: "large", limit: 1000, window: 200, demand: 2, cost: 900, op: OpSlide},
		{name: "strict", limit: 307, window: 300, demand: 2, cost: 1, op: OpCounter},
		{name: "changes", limit: 200, window: 300, demand: 2, cost: 1, op: OpSlide, changes: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			splitWindow(t, engines, "win:"+c.name, c.limit, c.window, c.demand, c.cost, c.op, c.changes)
		})
	}
}

func splitWindow(t *testing.T, engines []*Redis, key string, limit, window int64, demand float64, cost int64, op Op, changes bool) {
	const windows = 5
	start := time.Now()
	end := time.Duration(windows*window) * time.Millisecond
	perRequest := time.Duration(float64(window) * 1e6 * float64(cost) / (float64(limit) * demand))
	var mu sync.Mutex
	var all []timely
	sentN, asked := 0, int64(0)
	for _, e := range engines {
		asked -= e.splits.asked.Load()
	}
	var done sync.WaitGroup
	for w := range 12 {
		done.Add(1)
		go func() { // until the end
			defer done.Done()
			e, sent := engines[w%len(engines)], 0
			for at := perRequest * time.Duration(w); at < end; {
				now := time.Since(start)
				if now < at {
					time.Sleep(at - now) // paces the demand
				}
				var p Pipeline
				for ; at <= time.Since(start); at += 12 * perRequest {
					most := limit
					if changes && rand.IntN(2) == 0 {
						most = limit / 2
					}
					*p.Add() = splitAsk(key, op, cost, 4, Window{most, window})
				}
				from := time.Since(start)
				e.Do(&p)
				to := time.Since(start)
				mu.Lock()
				for i, res := range p.Results {
					if res.Err != nil {
						t.Errorf("%v", res.Err)
					}
					if res.Allowed {
						all = append(all, timely{from, to, cost, p.Requests[i].Windows[0].Limit})
					}
				}
				sent += len(p.Requests)
				mu.Unlock()
			}
			mu.Lock()
			sentN += sent
			mu.Unlock()
		}()
	}
	done.Wait()
	for _, e := range engines {
		asked += e.splits.asked.Load()
	}
	admitted, length := int64(0), time.Duration(window)*time.Millisecond
	for _, a := range all {
		admitted += a.cost
		within, before := int64(0), a.cost
		for _, b := range all {
			if b.from >= a.from && b.to <= a.from+length {
				within += b.cost // certainly in the window that begins with a's question
			}
			if b.to <= a.from && b.from >= a.to-length {
				before += b.cost // certainly in the window that ends with a
			}
		}
		require.LessOrEqual(t, within, limit)
		require.LessOrEqual(t, before, a.limit)
	}
	most := float64(limit) * windows * min(demand, 1)
	t.Logf("%d requests, %d admitted (%.0f %% of what could be), %.2f home questions a request",
		sentN, admitted, 100*float64(admitted)/most, float64(asked)/float64(sentN))
	require.Positive(t, admitted)
}

// A denial says when there may be room: not later than there is, and where it was the
// oldest unit that is waited for, hardly sooner.
func TestSplitRetryAfter(t *testing.T) {
	engines, _ := splitEngines(t, 2, 4)
	const window = 60_000
	ask := splitAsk("retry", OpSlide, 1, 4, Window{9, window})
	start := time.Now()
	first := time.Duration(0)
	for i := range 9 {
		require.True(t, do(engines[i%2], ask).Allowed)
		if i == 0 {
			first = time.Since(start)
		}
	}
	for i := range 6 {
		before := time.Since(start)
		res := do(engines[i%2], ask)
		require.False(t, res.Allowed)
		require.Zero(t, res.Remaining)
		require.LessOrEqual(t, res.RetryAfter, window+2-(before-first).Milliseconds())
		require.Greater(t, res.RetryAfter, window-time.Since(start).Milliseconds()-100)
		require.GreaterOrEqual(t, res.ResetAfter, res.RetryAfter)
		engines[i%2].denied.forgetAll() // ask the nodes each time
	}
}
