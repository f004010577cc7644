package redis

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// and makes one multi-key request of requests.
func and(requests ...engine.Request) []engine.Request {
	requests = slices.Clone(requests)
	requests[0].MoreKeys = len(requests) - 1
	return requests
}

// used returns the units of a key that are charged and held.
func used(t testing.TB, e *Engine, key string) (charged, held int64) {
	t.Helper()
	for _, s := range askAll(t, e, conformance.Inspect(key))[0].States {
		charged, held = charged+s.Used, held+s.Held
	}
	return charged, held
}

// keysOn returns keys of which each node has one, by the node's index.
func keysOn(e *Engine) []string {
	top := e.queues.OpenAll()
	keys := make([]string, len(top.Queues))
	for i, left := 0, len(keys); left > 0; i++ {
		key := fmt.Sprintf("key%d", i)
		if at := top.Locate([]byte(key), 0); keys[at] == "" {
			keys[at] = key
			left--
		}
	}
	return keys
}

// Once a multi-key request over several nodes is answered, its id is forgotten, whether it was admitted or denied.
func TestMultiKeyRequestsLeaveNoIDs(t *testing.T) {
	t.Parallel()
	servers, urls := startServers(t, 2)
	e := openAlways(t, 5*time.Second, urls...)
	keys := keysOn(e)
	ready(t, e, keys...)
	for _, allowed := range []bool{true, false} {
		for _, res := range askAll(t, e, and(charge(keys[0], 5), charge(keys[1], 1))...) {
			require.NoError(t, res.Err)
			require.Equal(t, allowed, res.Allowed)
		}
		for i, key := range keys {
			require.Equal(t, "0", servers[i].Do("EXISTS", "rl:{"+key+"}%i"), "admitted: %v", allowed)
		}
	}
}

// A multi-key request is one call if its keys are on one node, and a few if they are on several. It is admitted only
// if every key has room; else nothing is charged, and nothing stays held.
func TestMultiKeyRequests(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			servers, urls := startServers(t, nodes)
			e := openOn(t, backend.Config{Backends: urls, Timeout: 5 * time.Second}, Config{})
			keys := []string{"a", "b", "c"}
			if nodes > 1 {
				keys = keysOn(e)
			}
			ready(t, e, keys...)
			limits, costs := []int64{10, 7, 100}, []int64{1, 2, 3}
			ask := func() []engine.Result {
				var all []engine.Request
				for i, key := range keys {
					r := charge(key, limits[i])
					r.Cost = costs[i]
					all = append(all, r)
				}
				return askAll(t, e, and(all...)...)
			}
			calls := func() (n int) {
				for _, s := range servers {
					n += functionCalls(t, s)
				}
				return n
			}
			before := calls()
			for round := range int64(3) {
				for i, res := range ask() {
					require.True(t, res.Allowed)
					require.Equal(t, limits[i]-(round+1)*costs[i], res.Remaining)
				}
			}
			each := 1
			if nodes > 1 {
				each = 2 * len(keys)
			}
			require.Equal(t, 3*each, calls()-before)
			for range 2 {
				res := ask() // of the second key 1 of 7 is left
				require.False(t, res[0].Allowed || res[1].Allowed || res[2].Allowed)
				require.Zero(t, res[0].RetryAfter)
				require.EqualValues(t, 7, res[0].Remaining, "as if it were not asked")
				require.Positive(t, res[1].RetryAfter)
				require.EqualValues(t, 1, res[1].Remaining)
				require.Zero(t, res[2].RetryAfter)
				require.EqualValues(t, 91, res[2].Remaining)
			}
			for i, key := range keys {
				charged, held := used(t, e, key)
				require.Equal(t, 3*costs[i], charged)
				require.Zero(t, held)
			}
		})
	}
}

// The requests of a pipeline are answered in order, with any number of keys.
func TestMultiKeyRequestsKeepTheirPlaceInAPipeline(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 2)
	e := openOn(t, backend.Config{Backends: urls, Timeout: 5 * time.Second}, Config{})
	keys := keysOn(e)
	ready(t, e, keys...)
	a, b := charge(keys[0], 4), charge(keys[1], 4)
	near := charge("", 4) // on the node of a
	for i := 0; len(near.Key) == 0; i++ {
		if key := fmt.Appendf(nil, "near%d", i); e.queues.OpenAll().Locate(key, 0) == 0 {
			near.Key = key
		}
	}
	var all []engine.Request
	for _, part := range [][]engine.Request{{a}, and(a, b), {a, b}, and(near, a), {a}, and(b, a), {b}, {near}} {
		all = append(all, part...)
	}
	want := []struct {
		allowed   bool
		remaining int64
	}{
		{true, 3},            // a
		{true, 2}, {true, 3}, // a AND b
		{true, 1}, {true, 2}, // a, b
		{true, 3}, {true, 0}, // near AND a
		{false, 0},             // a
		{false, 2}, {false, 0}, // b AND a
		{true, 1}, // b
		{true, 2}, // near
	}
	for i, res := range askAll(t, e, all...) {
		require.Equal(t, want[i].allowed, res.Allowed, "request %d", i)
		require.Equal(t, want[i].remaining, res.Remaining, "request %d", i)
	}
}

// Whatever happens to a node, the answers for all keys of a request agree, and what was held for a denied one is free again
// a second later at the latest.
func TestMultiKeyRequestsWhileANodeIsAway(t *testing.T) {
	t.Parallel()
	servers, urls := startServers(t, 2)
	e := openOn(t, backend.Config{Backends: urls, Timeout: 5 * time.Second}, Config{AskAlways: true})
	keys := keysOn(e)
	ready(t, e, keys...)
	request := func(fail engine.FailPolicy) []engine.Request {
		a, b := charge(keys[0], 1000), charge(keys[1], 1000)
		a.Fail, b.Fail = engine.FailClosed, fail
		return and(a, b)
	}
	askAll(t, e, request(engine.FailClosed)...)
	for _, away := range []struct {
		name        string
		begin, over func()
	}{
		{"paused", servers[1].Pause, servers[1].Resume},
		{"killed", servers[1].Kill, servers[1].Run},
	} {
		before, _ := used(t, e, keys[0])
		answered := e.Nodes()[0].Traffic.FailAnswers
		e.fleet.SetTimeout(time.Second)
		away.begin()
		for range 3 {
			for fail, allowed := range map[engine.FailPolicy]bool{engine.FailOpen: true, engine.FailClosed: false} {
				results := askAll(t, e, request(fail)...)
				for _, res := range results {
					require.Equal(t, allowed, res.Allowed, away.name)
					require.Equal(t, results[0].RetryAfter, res.RetryAfter, "all wait for the same node")
					require.EqualValues(t, -1, res.Remaining)
					require.Equal(t, fail, res.Fail)
				}
			}
			p := engine.Pipeline{Requests: request(engine.FailError)}
			e.Do(&p)
			for i := range p.Results {
				require.ErrorContains(t, p.Results[i].Err, "UNAVAILABLE "+servers[1].Addr)
			}
		}
		charged, _ := used(t, e, keys[0])
		require.Equal(t, before, charged, "the policy answered, and the key of the other node was charged nothing")
		require.Equal(t, answered, e.Nodes()[0].Traffic.FailAnswers, "policies answered in place of the node that is away alone")
		proxytest.Eventually(t, "nothing to be held", func() bool {
			_, held := used(t, e, keys[0])
			return held == 0
		})
		away.over()
		e.fleet.SetTimeout(5 * time.Second)
		ready(t, e, keys...)
		for _, res := range askAll(t, e, request(engine.FailClosed)...) {
			require.True(t, res.Allowed)
		}
	}
}

// The error about a hold that is gone before its units are charged does not say that the node has not answered.
func TestAHoldThatIsGoneIsNotCalledSilence(t *testing.T) {
	t.Parallel()
	servers, urls := startServers(t, 2)
	e := openAlways(t, 5*time.Second, urls...)
	keys := keysOn(e)
	ready(t, e, keys...)
	var deleting sync.WaitGroup
	var over atomic.Bool
	deleting.Go(func() { // until an error has come
		for !over.Load() {
			servers[1].Do("DEL", stored(keys[1], 0), stored(keys[1], 0)+"%i")
		}
	})
	var err error
	proxytest.Eventually(t, "a hold to be deleted before its units are charged", func() bool {
		p := engine.Pipeline{Requests: and(charge(keys[0], limit.MaxLimit), charge(keys[1], limit.MaxLimit))}
		e.Do(&p)
		err = p.Results[0].Err
		return err != nil
	})
	over.Store(true)
	deleting.Wait()
	require.EqualError(t, err, "UNAVAILABLE "+servers[1].Addr+": the units of all keys were not held and charged in time")
}

// A multi-key request charges keys whose denials are remembered for other costs, so those are forgotten.
func TestMultiKeyRequestsEndRememberedDenials(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 1, 1)
	e := engines[0]
	costing := func(cost int64) engine.Request { return conformance.Slide("a", 5, 60_000, cost) }
	ready(t, e, "x")
	askAll(t, e, costing(3))
	denied := func() engine.Result { return askAll(t, e, costing(5))[0] }
	require.False(t, denied().Remembered)
	require.True(t, denied().Remembered)
	require.True(t, askAll(t, e, and(costing(1), charge("b", 5))...)[0].Allowed)
	last := denied()
	require.False(t, last.Allowed)
	require.False(t, last.Remembered)
	require.EqualValues(t, 1, last.Remaining)
}

// If one key denies, a split key that may have room is not said to deny, although its node would have to read
// the shards to be sure.
func TestSplitKeyIsNotSaidToDenyIfAnotherKeyDoes(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 2, 1)
	full := charge("full", 1)
	split := func(most, cost int64) engine.Request {
		return splitRequest("split", limit.Slide, cost, 3, limit.Window{Limit: most, Length: 600_000})
	}
	ready(t, engines[0], "x")
	askAll(t, engines[0], full, split(40, 2))
	lowered := split(10, 1)
	lowered.Shards = 0
	results := askAll(t, engines[1], and(full, lowered)...)
	require.False(t, results[0].Allowed)
	require.Positive(t, results[0].RetryAfter)
	require.False(t, results[1].Allowed)
	require.Zero(t, results[1].RetryAfter)
}

// FAIL LOCAL charges all keys of a request or none, and writes back what it has charged, whether the keys are on one node
// or on several.
func TestLocalDecidesAllKeysOfARequestTogether(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 2} {
		t.Run(fmt.Sprint(nodes, " nodes"), func(t *testing.T) {
			t.Parallel()
			servers, urls := startServers(t, nodes)
			e := openOn(t, backend.Config{Backends: urls, Timeout: 300 * time.Millisecond}, Config{AskAlways: true})
			keys := keysOn(e) // of the last the node will be away
			ready(t, e, keys...)
			away := keys[nodes-1]
			servers[nodes-1].Pause()
			require.Eventually(t, func() bool {
				conformance.Ask(e, charge(away, 1))
				return e.queues.OpenAll().Queues[nodes-1].Down()
			}, 10*time.Second, time.Millisecond)
			first := charge("", 100)
			for i := 0; len(first.Key) == 0; i++ { // another key, of the first node
				if key := fmt.Appendf(nil, "other%d", i); e.queues.OpenAll().Locate(key, 0) == 0 {
					first.Key = key
				}
			}
			last := charge(away+"!", 2)
			for i := 0; e.queues.OpenAll().Locate(last.Key, 0) != nodes-1; i++ { // nobody has asked about it
				last.Key = fmt.Appendf(nil, "last%d", i)
			}
			first.Fail, last.Fail = engine.FailLocal, engine.FailLocal
			for i := range 6 {
				for _, res := range askAll(t, e, and(first, last)...) {
					require.Equal(t, i < 2, res.Allowed)
					require.Equal(t, engine.FailLocal, res.Fail)
					require.EqualValues(t, -1, res.Remaining)
				}
			}
			servers[nodes-1].Resume()
			proxytest.Eventually(t, "all to be written back", func() bool { return info(t, e, "local_unwritten") == "0" && allUp(e) })
			require.Equal(t, "0", info(t, e, "local_lost"))
			for _, key := range [][]byte{first.Key, last.Key} {
				proxytest.Eventually(t, "the key to be charged what was admitted", func() bool {
					charged, held := used(t, e, string(key))
					return charged == 2 && held == 0
				})
			}
		})
	}
}

// The holds of a proxy that has crashed end after a second and charge nothing.
func TestHoldsOfAProxyThatIsGoneEnd(t *testing.T) {
	t.Parallel()
	_, urls := startServers(t, 2)
	e := openOn(t, backend.Config{Backends: urls, Timeout: 5 * time.Second}, Config{AskAlways: true})
	keys := keysOn(e)
	ready(t, e, keys...)
	for _, key := range keys {
		r := reserve(key, "question", 5, 5) // as a multi-key request begins
		r.Hold.TTL, r.Hold.Release = 1000, true
		r.Windows[0].Length = charge(key, 5).Windows[0].Length
		require.True(t, askAll(t, e, r)[0].Allowed)
	}
	began := time.Now()
	denied := askAll(t, e, and(charge(keys[0], 5), charge(keys[1], 5))...)
	require.False(t, denied[0].Allowed)
	require.Positive(t, denied[0].RetryAfter)
	proxytest.Eventually(t, "the holds to end", func() bool {
		return askAll(t, e, and(charge(keys[0], 5), charge(keys[1], 5))...)[0].Allowed
	})
	require.Less(t, time.Since(began), time.Second+5*lateness)
	for _, key := range keys {
		charged, held := used(t, e, key)
		require.EqualValues(t, 1, charged)
		require.Zero(t, held)
	}
}

// In a cluster, keys of many slots are one call while one node has them all, and a multi-key request
// is also answered while they move.
func TestMultiKeyRequestsInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, nil)
	e := openAlways(t, 5*time.Second, c.URL())
	var keys []string // of one node
	for i := 0; len(keys) < 3; i++ {
		if key := fmt.Sprintf("of%d", i); slotOf(key) < 8000 {
			keys = append(keys, key)
		}
	}
	ready(t, e, keys...)
	const most = 100_000
	asked := int64(0)
	ask := func() {
		asked++
		for _, res := range askAll(t, e, and(charge(keys[0], most), charge(keys[1], most), charge(keys[2], most))...) {
			require.True(t, res.Allowed)
			require.Equal(t, most-asked, res.Remaining)
		}
	}
	from := c.Master(slotOf(keys[1]))
	before := functionCalls(t, c.Nodes[from])
	for range 10 {
		ask()
	}
	require.Equal(t, 10, functionCalls(t, c.Nodes[from])-before)
	c.Nodes[1-from].Do("FUNCTION", "FLUSH")
	c.Move(slotOf(keys[1]), from, 1-from, func() {})
	for range 10 {
		ask()
	}
}

// Several proxies send multi-key requests about overlapping keys of several nodes, some of them split.
// No limit is exceeded, and each request that was admitted is charged to every key.
func TestManyMultiKeyRequestsWithOverlappingKeys(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 2, 3)
	for _, e := range engines {
		ready(t, e, keysOn(e)...)
	}
	const most, workers, rounds = 40, 4, 120
	admitted := make([][6]int64, workers)
	var late atomic.Int64 // requests whose holds took too long to be confirmed, on a busy machine
	var done sync.WaitGroup
	for w := range workers {
		done.Add(1)
		go func() { // for its rounds
			defer done.Done()
			for round := range rounds {
				first := (w + round) % 6
				var all []engine.Request
				for _, k := range []int{first, (first + 1 + round%2) % 6, (first + 4) % 6} {
					r := charge(fmt.Sprintf("shared%d", k), most)
					if k == 0 {
						r.Shards = 3
					}
					all = append(all, r)
				}
				p := engine.Pipeline{Requests: and(all...)}
				engines[w%2].Do(&p)
				if p.Results[0].Err != nil {
					late.Add(1)
				}
				for i, k := range []int{first, (first + 1 + round%2) % 6, (first + 4) % 6} {
					res := &p.Results[i]
					if (res.Err == nil) != (p.Results[0].Err == nil) || res.Allowed != p.Results[0].Allowed {
						t.Errorf("%+v beside %+v", res, p.Results[0])
					}
					if res.Allowed {
						admitted[w][k]++
					}
				}
			}
		}()
	}
	done.Wait()
	require.Less(t, late.Load(), int64(workers*rounds/2))
	for k := range 6 {
		sum := int64(0)
		for w := range workers {
			sum += admitted[w][k]
		}
		charged, held := used(t, engines[0], fmt.Sprintf("shared%d", k))
		require.Equal(t, sum, charged, "key %d", k)
		require.LessOrEqual(t, charged, int64(most))
		require.Zero(t, held)
	}
}
