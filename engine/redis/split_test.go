package redis

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// Without cost, and when denied, a request on a split key learns exactly when nothing is used any more,
// although shards hold more than they have used.
func TestSplitKeysTellWhenNothingIsUsed(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 3)
	e := openAlways(t, 5*time.Second, urls...) // a remembered denial counts the ms since it was sent, not since the node's clock was read
	const length = 20_000
	for _, c := range []struct{ requests, limit, cost int64 }{{8, 20, 0}, {8, 8, 1}} {
		window := limit.Window{Limit: c.limit, Length: length}
		key := fmt.Sprintf("reset:%d", c.limit)
		var before, after time.Time // of the last admission
		for range c.requests {
			before = time.Now()
			require.True(t, conformance.Ask(e, splitRequest(key, limit.Slide, 1, 3, window)).Allowed)
			after = time.Now()
		}
		require.Eventually(t, func() bool {
			asked := time.Now()
			res := conformance.Ask(e, splitRequest(key, limit.Slide, c.cost, 3, window))
			require.NoError(t, res.Err)
			require.Equal(t, c.limit-c.requests, res.Remaining)
			require.GreaterOrEqual(t, res.ResetAfter, length+1-time.Since(before).Milliseconds()-2) // both are rounded
			return res.ResetAfter < length-500 && res.ResetAfter <= length+1-asked.Sub(after).Milliseconds()+2
		}, 10*time.Second, 20*time.Millisecond)
	}
}

// RL.INSPECT of a split key shows the day that its nodes' clocks show, and nothing of the day before, also while a shard is
// away.
func TestSplitKeysShowThePresentDay(t *testing.T) {
	t.Parallel()
	var now atomic.Int64
	now.Store(conformance.Base + 3_600_000)
	servers, _ := startServers(t, 3)
	e := openAt(t, now.Load, servers...)
	ready(t, e, "k")
	r := splitRequest("k", limit.Fixed, 1, 3, limit.Window{Limit: 30})
	r.Fail = engine.FailError
	r.Windows[0].Length, _ = limit.CalendarLength([]byte("day"))
	used := func() (all []int64) {
		res := conformance.Ask(e, conformance.Inspect("k"))
		require.NoError(t, res.Err)
		for _, st := range res.States {
			period, zone := limit.Window{Length: st.Window}.Calendar()
			require.Equal(t, "day UTC", period+" "+zone)
			all = append(all, st.Used)
		}
		return all
	}
	admit := func(n int) {
		for i := range n {
			r.ID = fmt.Appendf(nil, "%d", i) // so that every shard is asked
			require.True(t, conformance.Ask(withCalendar(e), r).Allowed)
		}
	}
	admit(20)
	require.Equal(t, []int64{20}, used())
	now.Store(conformance.Base + 24*3_600_000)
	require.Empty(t, used())
	admit(5)
	require.Equal(t, []int64{5}, used())
	servers[e.Topology().Locate(r.Key, 1)].Kill()
	now.Store(conformance.Base + 48*3_600_000)
	require.Empty(t, used())
}

// While a shard may still admit by another limit on a window, which is lower, an admission reports what remains of its own limits.
func TestSplitKeysReportTheRoomOfTheLimitsThatWereRequested(t *testing.T) {
	t.Parallel()
	servers, _ := startServers(t, 3)
	e := openAt(t, func() int64 { return conformance.Base }, servers...) // no lease ends
	const hour, day = 3_600_000, 86_400_000
	lower := splitRequest("k", limit.Slide, 1, 3, limit.Window{Limit: 50, Length: day})
	for i := 0; info(t, e, "split_loans") == "0"; i++ {
		lower.ID = fmt.Append(nil, i) // some of these go to another shard than the home
		require.True(t, conformance.Ask(e, lower).Allowed)
	}
	var p engine.Pipeline
	for range 60 { // more than the shards have left of the lower limit
		*p.Add() = splitRequest("k", limit.Slide, 1, 3, limit.Window{Limit: 100, Length: hour}, limit.Window{Limit: 65537, Length: day})
	}
	e.Do(&p)
	for i, res := range p.Results {
		require.NoError(t, res.Err)
		require.Equal(t, limit.Decision{Allowed: true, Limit: 100, Remaining: 99 - int64(i), ResetAfter: hour + 1}, res.Decision)
	}
}

// Requests that are sent one by one are admitted up to exactly the limit, through any proxy and for
// any limit. Requests without cost are exact, and a reset deletes everything.
func TestSplitOneByOne(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 3, 4)
	one := func() *Engine { return engines[rand.IntN(len(engines))] }
	for i, c := range []struct {
		limit, cost int64
		shards      int
		kind        limit.Kind
	}{
		{101, 1, 4, limit.Slide}, {3, 1, 4, limit.Slide}, {1000, 900, 4, limit.Slide}, {97, 5, 7, limit.Slide},
		{64, 1, 4, limit.Counter}, {50, 1, 2, limit.Fixed},
	} {
		key := fmt.Sprintf("one:%d", i)
		for round := range 2 {
			admitted := int64(0)
			for range 2*c.limit/c.cost + 3 {
				r := splitRequest(key, c.kind, c.cost, c.shards, limit.Window{Limit: c.limit, Length: 3_600_000})
				if rand.IntN(4) == 0 {
					r.ID = fmt.Appendf(nil, "%d", rand.IntN(100))
				}
				res := conformance.Ask(one(), r)
				require.NoError(t, res.Err)
				require.Equal(t, admitted+c.cost <= c.limit, res.Allowed, "%+v round %d: %d admitted, %+v", c, round, admitted, res.Decision)
				if res.Allowed {
					admitted += c.cost
				}
				require.Equal(t, !res.Allowed, res.RetryAfter > 0)
				if rand.IntN(8) == 0 {
					peek := conformance.Ask(one(), splitRequest(key, c.kind, 0, c.shards, limit.Window{Limit: c.limit, Length: 3_600_000}))
					require.NoError(t, peek.Err)
					require.Equal(t, c.limit-admitted, peek.Remaining)
					require.Equal(t, admitted < c.limit, peek.Allowed)
				}
			}
			states := conformance.Ask(one(), conformance.Inspect(key))
			require.NoError(t, states.Err)
			require.Len(t, states.States, 1)
			require.Equal(t, admitted, states.States[0].Used)
			require.Equal(t, c.limit, states.States[0].Limit)
			require.Equal(t, c.limit-admitted, states.States[0].Remaining)
			reset := conformance.Ask(one(), conformance.Reset(key))
			require.NoError(t, reset.Err)
			require.True(t, reset.Reset)
			for _, e := range engines {
				e.denials.ForgetAll() // the message may take its time
			}
		}
	}
}

// STRICT counts the units of all shards in full, even if shards have reported what they weigh, which is little by then.
func TestStrictSplitCounterCountsWhatWeighsLittle(t *testing.T) {
	t.Parallel()
	servers, _ := startServers(t, 4)
	const length, units = 60_000, 100
	var ms atomic.Int64
	e := openAt(t, ms.Load, servers...)
	ask := func(at, cost, manner int64) bool {
		t.Helper()
		ms.Store(at)
		r := splitRequest("k", limit.Counter, cost, 4, limit.Window{Limit: units, Length: length})
		r.Param, r.Manner = 1, manner
		res := conformance.Ask(e, r)
		require.NoError(t, res.Err)
		return res.Allowed
	}
	const start = 4102444800000 // of a window, in the future: nodes expire keys by their own clock
	for range units {
		require.True(t, ask(start-1, 1, 0))
	}
	require.False(t, ask(start+57_000, units, 0), "the units still weigh something")
	require.False(t, ask(start+59_500, 20, limit.Strict), "all of them are in the trailing window")
	require.True(t, ask(start+length, units, limit.Strict))
}

// timely is a request that a proxy admitted: it was charged at some time between from and to.
type timely struct {
	from, to time.Duration
	cost     int64
	limit    int64 // that it brought
}

// demand is a load on one split key.
type demand struct {
	name    string
	kind    limit.Kind
	limit   int64
	window  int64   // ms
	times   float64 // the limit, per window
	cost    int64
	changes bool // half of the requests bring half of the limit
}

// Whether three proxies send less or more than the limit, no window of real time has more admitted in
// it.
func TestSplitWindow(t *testing.T) {
	engines, _ := openSplit(t, 3, 4)
	for _, d := range []demand{
		{name: "half", limit: 1003, window: 500, times: 0.5, cost: 1, kind: limit.Slide},
		{name: "even", limit: 1003, window: 500, times: 1, cost: 1, kind: limit.Slide},
		{name: "thrice", limit: 1003, window: 500, times: 3, cost: 1, kind: limit.Slide},
		{name: "fewer than shards", limit: 3, window: 200, times: 3, cost: 1, kind: limit.Slide},
		{name: "large", limit: 1000, window: 200, times: 2, cost: 900, kind: limit.Slide},
		{name: "strict", limit: 307, window: 300, times: 2, cost: 1, kind: limit.Counter},
		{name: "changes", limit: 200, window: 300, times: 2, cost: 1, kind: limit.Slide, changes: true},
	} {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			d.run(t, engines)
		})
	}
	t.Cleanup(func() {
		for _, e := range engines {
			t.Logf("%s calls to homes", info(t, e, "split_home_calls"))
		}
	})
}

// run sends the demand for some windows, and counts for every window what was certainly admitted
// within it.
func (d *demand) run(t *testing.T, engines []*Engine) {
	const windows = 5
	length := time.Duration(d.window) * time.Millisecond
	start, end := time.Now(), windows*length
	perRequest := time.Duration(float64(length) * float64(d.cost) / (float64(d.limit) * d.times))
	var mu sync.Mutex
	var all []timely
	sent := 0
	var done sync.WaitGroup
	for w := range 12 {
		done.Add(1)
		go func() { // until the end
			defer done.Done()
			e := engines[w%len(engines)]
			for at := perRequest * time.Duration(w); at < end; {
				now := time.Since(start)
				if now < at {
					time.Sleep(at - now) // paces the demand
				}
				var p engine.Pipeline
				for ; at <= time.Since(start); at += 12 * perRequest {
					most := d.limit
					if d.changes && rand.IntN(2) == 0 {
						most = d.limit / 2
					}
					*p.Add() = splitRequest("win:"+d.name, d.kind, d.cost, 4, limit.Window{Limit: most, Length: d.window})
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
						all = append(all, timely{from, to, d.cost, p.Requests[i].Windows[0].Limit})
					}
				}
				sent += len(p.Requests)
				mu.Unlock()
			}
		}()
	}
	done.Wait()
	byFrom := func(a timely, from time.Duration) int { return cmp.Compare(a.from, from) }
	slices.SortFunc(all, func(a, b timely) int { return byFrom(a, b.from) })
	between := func(first, last time.Duration) []timely { // those that were sent then
		i, _ := slices.BinarySearchFunc(all, first, byFrom)
		j, _ := slices.BinarySearchFunc(all, last+1, byFrom)
		return all[i:max(i, j)]
	}
	admitted := int64(0)
	for _, a := range all {
		admitted += a.cost
		within, before := int64(0), a.cost
		for _, b := range between(a.from, a.from+length) {
			if b.to <= a.from+length {
				within += b.cost // certainly in the window that begins with a's request
			}
		}
		for _, b := range between(a.to-length, a.from) {
			if b.to <= a.from {
				before += b.cost // certainly in the window that ends with a
			}
		}
		require.LessOrEqual(t, within, d.limit)
		require.LessOrEqual(t, before, a.limit)
	}
	most := float64(d.limit) * windows * min(d.times, 1)
	t.Logf("%d requests, %d admitted (%.0f %% of what could be)", sent, admitted, 100*float64(admitted)/most)
	require.Positive(t, admitted)
}

// The retry time of a denial is never later than there is room. If the request waits only for the
// oldest unit, it is hardly sooner either.
func TestSplitRetryAfter(t *testing.T) {
	engines, _ := openSplit(t, 2, 4)
	const window = 60_000
	ask := splitRequest("retry", limit.Slide, 1, 4, limit.Window{Limit: 9, Length: window})
	start := time.Now()
	first := time.Duration(0)
	for i := range 9 {
		require.True(t, conformance.Ask(engines[i%2], ask).Allowed)
		if i == 0 {
			first = time.Since(start)
		}
	}
	for i := range 6 {
		before := time.Since(start)
		res := conformance.Ask(engines[i%2], ask)
		require.False(t, res.Allowed)
		require.Zero(t, res.Remaining)
		require.LessOrEqual(t, res.RetryAfter, window+2-(before-first).Milliseconds())
		require.Greater(t, res.RetryAfter, window-time.Since(start).Milliseconds()-100)
		require.GreaterOrEqual(t, res.ResetAfter, res.RetryAfter)
		engines[i%2].denials.ForgetAll() // ask the nodes each time
	}
}

// The home and the shards of a key share the time of one request: when a shard refuses after that, the home is not asked.
func TestSplitKeysAreAnsweredInTheTimeOfOneRequest(t *testing.T) {
	t.Parallel()
	const timeout = proxytest.Patience
	servers, urls := startServers(t, 2)
	e := openOn(t, backend.Config{Backends: urls, Timeout: timeout}, Config{AskAlways: true})
	var ahead atomic.Int64 // of the engine's clock
	e.now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	ready(t, e, "slow")
	ask := splitRequest("slow", limit.Slide, 1, 2, limit.Window{Limit: 4, Length: 3_600_000})
	ask.Fail = engine.FailError
	proxytest.Eventually(t, "the limit to be reached", func() bool { // and both nodes have the library
		res := conformance.Ask(e, ask)
		return res.Err == nil && !res.Allowed
	})
	for i := 0; ; i++ {
		ask.ID = fmt.Appendf(nil, "%d", i)
		if shard, _, _ := e.splits.Route(&split.Routes{}, &ask); shard == 1 {
			break
		}
	}
	top := e.queues.OpenAll()
	home, shard := top.Locate(ask.Key, 0), top.Locate(ask.Key, 1)
	asked := func(node int) int64 { return top.Queues[node].Batches.Load() }
	for _, s := range servers {
		s.Pause()
		t.Cleanup(s.Resume)
	}
	atHome, atShard := asked(home), asked(shard)
	sent, answered := e.elapsed().Milliseconds(), make(chan engine.Result)
	go func() { answered <- conformance.Ask(e, ask) }() // until the timeout
	proxytest.Eventually(t, "the shard to be asked", func() bool { return asked(shard) > atShard })
	ahead.Store(int64(timeout))
	servers[shard].Resume()
	require.ErrorContains(t, (<-answered).Err, "UNAVAILABLE "+servers[home].Addr)
	require.Equal(t, atHome, asked(home))

	call := &split.Call{Function: lua.Lend, Sent: sent}
	e.Call(ask.Key, []*split.Call{call})
	require.Equal(t, &split.Failure{Why: "not sent: too little of backend-timeout was left"}, call.Failure)
	require.Equal(t, atHome, asked(home))
}
