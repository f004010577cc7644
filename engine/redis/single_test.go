package redis

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// minute is the window of the requests of these tests, in ms.
const minute = 60_000

// chargeOnce returns a request of cost 1 that is charged once for its id.
func chargeOnce(key, id string, most int64) engine.Request {
	r := conformance.Slide(key, most, minute, 1)
	r.Fail, r.Hold = engine.FailError, &engine.Hold{ID: engine.DigestOf([]byte(id)), Once: true}
	return r
}

// reserve returns a request that holds units for a minute.
func reserve(key, id string, most, cost int64) engine.Request {
	r := conformance.Slide(key, most, minute, cost)
	r.Fail, r.Hold = engine.FailError, &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: minute}
	return r
}

// settle returns a request that ends a reservation.
func settle(key, id string, cost int64) engine.Request {
	return engine.Request{Op: engine.OpSettle, Key: []byte(key), Spec: limit.Spec{Cost: cost}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id))}}
}

// acquire returns a request for one of a number of slots, for a minute.
func acquire(key, id string, slots int64) engine.Request {
	r := engine.Request{Key: []byte(key), Fail: engine.FailError, Hold: &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: minute, Release: true}}
	r.Spec = limit.Spec{Kind: limit.Concurrency, N: 1, Param: 1, Cost: 1}
	r.Windows[0].Limit = slots
	return r
}

// release returns a request that ends a lease of acquire; renew returns one that extends it.
func release(key, id string) engine.Request {
	r := settle(key, id, 0)
	r.Kind = limit.Concurrency
	return r
}

func renew(key, id string) engine.Request {
	r := release(key, id)
	r.Op, r.Hold.TTL = engine.OpRenew, minute
	return r
}

// askAll sends requests as one pipeline, and requires that none fails.
func askAll(t testing.TB, e *Engine, requests ...engine.Request) []engine.Result {
	t.Helper()
	p := engine.Pipeline{Requests: requests}
	e.Do(&p)
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err, "%+v", requests[i])
	}
	return p.Results
}

// Renewals that follow each other are few calls, whatever their keys, and so are renewals among other requests with ids.
func TestRenewalsShareACall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	ready(t, e, "k")
	var acquired, renewed []engine.Request
	for i := range 2*maxSharing + 10 {
		key, id := fmt.Sprintf("pool%d", i%7), fmt.Sprint(i)
		if i%10 != 3 { // of the others nothing is held
			acquired = append(acquired, acquire(key, id, 1000))
		}
		renewed = append(renewed, renew(key, id))
	}
	askAll(t, e, acquired...)
	before := functionCalls(t, s)
	for i, res := range askAll(t, e, renewed...) {
		require.Equal(t, i%10 != 3, res.Renewed, "%d", i)
	}
	require.Equal(t, 3, functionCalls(t, s)-before)

	before = functionCalls(t, s)
	mixed := askAll(t, e, slices.Concat(renewed[:2], []engine.Request{charge("pool0", 5), release("pool0", "0")}, renewed[:2])...)
	require.Equal(t, 3, functionCalls(t, s)-before)
	require.True(t, mixed[0].Renewed && mixed[1].Renewed && mixed[3].Settled.Settled && mixed[5].Renewed)
	require.False(t, mixed[4].Renewed, "what was released has ended")

	s.Do("FUNCTION", "FLUSH")
	for i, res := range askAll(t, e, renewed[1:]...) {
		require.Equal(t, (i+1)%10 != 3, res.Renewed, "%d: the library was lost meanwhile", i)
	}
}

// Requests with ids that follow each other are few calls, in order, and each is answered as if it were alone.
func TestRequestsWithIDsShareACall(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	ready(t, e, "k")
	var requests []engine.Request
	for i := range 50 {
		key, id := fmt.Sprintf("shared%d", i%7), fmt.Sprint(i)
		requests = append(requests, chargeOnce(key, id, 1000), reserve(key, id, 1000, 10), settle(key, id, 3), acquire("slots", id, 1000))
	}
	before := functionCalls(t, s)
	for i, res := range askAll(t, e, requests...) {
		if i%4 == 2 {
			require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Returned: 7}, res.Settled, "%d", i)
		} else {
			require.True(t, res.Allowed && !res.Again, "%d", i)
		}
	}
	require.Equal(t, 4, functionCalls(t, s)-before)
	s.Do("FUNCTION", "FLUSH")
	for i, res := range askAll(t, e, requests...) {
		require.True(t, res.Again || res.Settled.Again, "%d: charged twice", i)
	}
	for _, res := range askAll(t, e, conformance.Slide("shared0", 1000, minute, 1)) {
		require.EqualValues(t, 1000-8*(1+3)-1, res.Remaining)
	}
	before = functionCalls(t, s)
	askAll(t, e, requests[0], renew("slots", "1"), requests[1], charge("k", 5), requests[2], requests[3])
	require.Equal(t, 3, functionCalls(t, s)-before, "a request without an id ends the call before it")
}

// A damaged record affects only its own key: the other requests of the call are answered.
func TestADamagedKeyDoesNotKeepOthersFromBeingAnswered(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	askAll(t, a.Engine, reserve("a", "1", 50, 10), reserve("b", "1", 50, 10))
	a.store(t, "b", 0, []byte("nonsense"))
	p := engine.Pipeline{Requests: []engine.Request{settle("a", "1", 4), settle("b", "1", 4), chargeOnce("b", "2", 50), chargeOnce("a", "2", 50)}}
	a.Do(&p)
	require.True(t, p.Results[0].Settled.Settled && p.Results[3].Allowed)
	require.EqualValues(t, 45, p.Results[3].Remaining)
	require.ErrorContains(t, p.Results[1].Err, "RL.RESET removes it")
	require.ErrorContains(t, p.Results[2].Err, "RL.RESET removes it")
	a.unharmed(t)
}

// A request that fails is answered in its turn: it is not asked again after those behind it.
func TestAFailureDoesNotChangeTheOrderOfASharedCall(t *testing.T) {
	t.Parallel()
	e := openAlways(t, 5*time.Second, redistest.Start(t).URL())
	ready(t, e, "k")
	hold := func(id string) engine.Request {
		r := reserve("a", id, limit.MaxLimit, 10)
		r.Kind, r.Hold.Release = limit.Counter, true
		return r
	}
	askAll(t, e, hold("1"), hold("2"), settle("a", "1", limit.MaxLimit))
	p := engine.Pipeline{Requests: []engine.Request{settle("a", "2", limit.MaxLimit), settle("a", "2", 3)}}
	e.Do(&p)
	require.ErrorIs(t, p.Results[0].Err, engine.ErrOverrun)
	require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Returned: 7}, p.Results[1].Settled)
}

// A damaged record affects only its own key: the other leases of the call are renewed.
func TestADamagedKeyDoesNotKeepOthersFromBeingRenewed(t *testing.T) {
	t.Parallel()
	a := startAttacked(t)
	askAll(t, a.Engine, acquire("a", "1", 5), acquire("b", "1", 5), acquire("c", "1", 5))
	a.store(t, "b", 0, []byte("nonsense"))
	p := engine.Pipeline{Requests: []engine.Request{renew("a", "1"), renew("b", "1"), renew("c", "1")}}
	a.Do(&p)
	require.True(t, p.Results[0].Renewed && p.Results[2].Renewed)
	require.ErrorContains(t, p.Results[1].Err, "RL.RESET removes it")
	askAll(t, a.Engine, conformance.Reset("b"), acquire("b", "1", 1), renew("b", "1"))
	a.unharmed(t)
}

// A request with an id is decided by the node even if an equal request was just denied, because it may
// have been admitted before. Denials of a key with held units are not remembered, because the units
// may be given back.
func TestDenialsOfWhatIsHeldAreNotRemembered(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAt(t, nil, s)
	ready(t, e, "k")
	plain := conformance.Slide("k", 1, minute, 1)
	askAll(t, e, chargeOnce("k", "1", 1))
	require.False(t, askAll(t, e, plain)[0].Allowed)
	require.True(t, askAll(t, e, plain)[0].Remembered)
	again := askAll(t, e, chargeOnce("k", "1", 1))[0]
	require.True(t, again.Allowed && again.Again && !again.Remembered)
	require.False(t, askAll(t, e, chargeOnce("k", "2", 1))[0].Remembered)

	plain.Key = []byte("held")
	askAll(t, e, reserve("held", "1", 1, 1))
	require.False(t, askAll(t, e, plain)[0].Allowed)
	require.False(t, askAll(t, e, plain)[0].Remembered)
	askAll(t, e, settle("held", "1", 0))
	require.True(t, askAll(t, e, plain)[0].Allowed)
	askAll(t, e, acquire("slots", "1", 1))
	require.False(t, askAll(t, e, acquire("slots", "2", 1))[0].Allowed)
	askAll(t, e, release("slots", "1"))
	require.True(t, askAll(t, e, acquire("slots", "2", 1))[0].Allowed)
}

// While replies are lost at random, clients retry until they have an answer. Each request is charged
// once, each reservation is held and settled once, and every retry gets the same answer.
func TestRequestsWithIDsAreChargedOnceOverABadNetwork(t *testing.T) {
	t.Parallel()
	servers, _ := startServers(t, 2)
	var proxies []*faultnet.Proxy
	nodes := backend.Config{Timeout: 40 * time.Millisecond}
	for _, s := range servers {
		proxies = append(proxies, faultnet.Start(t, s.Addr))
		nodes.Backends = append(nodes.Backends, "redis://"+proxies[len(proxies)-1].Addr)
	}
	engines := []*Engine{openOn(t, nodes, Config{}), openOn(t, nodes, Config{})} // two proxies
	keys := []string{"a", "b", "c", "d"}
	for _, e := range engines {
		ready(t, e, keys...)
	}
	for _, p := range proxies {
		p.Set(badNet)
	}
	const workers, rounds, most = 6, 60, 1_000_000
	until := func(turn *int, r engine.Request) engine.Result { // asks this proxy and that one until one answers
		for {
			*turn++
			if res := conformance.Ask(engines[*turn%2], r); res.Err == nil && res.Fail == engine.FailDefault {
				return res
			}
			time.Sleep(time.Millisecond)
		}
	}
	var again [workers]int
	var done sync.WaitGroup
	for w := range workers {
		done.Add(1)
		go func() { // for its rounds
			defer done.Done()
			turn := 0
			for round := range rounds {
				key, id := keys[round%len(keys)], fmt.Sprintf("%d:%d", w, round)
				res := until(&turn, chargeOnce(key, id, most))
				if res.Again {
					again[w]++
				}
				if repeated := until(&turn, chargeOnce(key, id, most)); !repeated.Again || repeated.Remaining != res.Remaining {
					t.Errorf("first %+v, then %+v", res, repeated)
				}
				until(&turn, reserve(key, id, most, 5))
				if s := until(&turn, settle(key, id, 3)).Settled; !s.Settled || s.Charged != 3 || s.Returned != 2 {
					t.Errorf("settled %+v", s)
				}
			}
		}()
	}
	done.Wait()
	for _, p := range proxies {
		p.Set(faultnet.Faults{})
	}
	for _, key := range keys {
		turn := 0
		states := until(&turn, conformance.Inspect(key)).States
		require.Len(t, states, 1)
		require.EqualValues(t, workers*rounds/len(keys)*4, states[0].Used, "one for each request with ONCE, and three for each reservation")
		require.EqualValues(t, most-states[0].Used, states[0].Remaining, "nothing is held")
	}
	sum := 0
	for _, n := range again {
		sum += n
	}
	require.Positive(t, sum, "no reply of a request that was charged was lost")
}

// Requests that no node answers are answered by the FAIL policy. LOCAL charges at once what would be
// held, and cannot grant slots. Requests that end or extend a hold get an error.
func TestPoliciesOfRequestsWithIDs(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 500*time.Millisecond, s.URL())
	ready(t, e, "k")
	s.Kill()
	require.Eventually(t, func() bool {
		_ = conformance.Ask(e, charge("k", 1))
		return e.Topology().Nodes[0].Down()
	}, 10*time.Second, time.Millisecond)
	ask := func(r engine.Request, fail engine.FailPolicy) engine.Result {
		r.Fail = fail
		return conformance.Ask(e, r)
	}
	open := limit.Decision{Allowed: true, Limit: 2, Remaining: -1}
	for name, r := range map[string]engine.Request{"once": chargeOnce("once", "1", 2), "reserve": reserve("reserve", "1", 2, 1)} {
		require.Equal(t, open, ask(r, engine.FailOpen).Decision, name)
		require.False(t, ask(r, engine.FailClosed).Allowed, name)
		require.ErrorContains(t, ask(r, engine.FailError).Err, "UNAVAILABLE "+s.Addr, name)
		for i := range 3 {
			res := ask(r, engine.FailLocal)
			require.Equal(t, i < 2, res.Allowed, "%s: the id is not kept here, the limit is", name)
			require.EqualValues(t, -1, res.Remaining)
			require.Equal(t, engine.FailLocal, res.Fail)
			require.False(t, res.Again)
		}
	}
	slot := acquire("slots", "1", 2)
	require.Equal(t, open, ask(slot, engine.FailOpen).Decision)
	closed := ask(slot, engine.FailLocal)
	require.False(t, closed.Allowed)
	require.Equal(t, engine.FailClosed, closed.Fail)
	require.ErrorContains(t, ask(slot, engine.FailError).Err, "UNAVAILABLE")
	for _, r := range []engine.Request{settle("k", "1", 1), release("k", "1"), renew("k", "1")} {
		require.ErrorContains(t, ask(r, engine.FailOpen).Err, "UNAVAILABLE "+s.Addr)
	}
	s.Run()
	require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "2" }, 10*time.Second, time.Millisecond)
	require.False(t, askAll(t, e, settle("reserve", "1", 1))[0].Settled.Settled, "the node does not know it")
}

// While a slot moves to another node, a key's ids may be on one node and its record on the other. A
// request then fails rather than being charged twice.
func TestIDsAreKnownWhileTheirSlotMoves(t *testing.T) {
	t.Run("asked at once", func(t *testing.T) {
		idsAreKnownWhileTheirSlotMoves(t, func(e *Engine, r engine.Request) engine.Result { return conformance.Ask(e, r) })
	})
	t.Run("resolved", func(t *testing.T) { // as while the shards of a split key are recalled
		idsAreKnownWhileTheirSlotMoves(t, func(e *Engine, r engine.Request) (res engine.Result) {
			e.resolve([]*split.Request{{Request: &r, Result: &res, Sent: e.elapsed().Milliseconds()}})
			return res
		})
	})
}

func idsAreKnownWhileTheirSlotMoves(t *testing.T, answer func(e *Engine, r engine.Request) engine.Result) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, nil)
	e := openAlways(t, 2*time.Second, c.URL())
	const key, most = "moves", 1_000_000
	ready(t, e, key)
	slot := slotOf(key)
	ids := int64(0)
	ask := func(id int64) (known bool) { // asks until there is an answer or it is clear that the slot is between nodes
		res := answer(e, chargeOnce(key, fmt.Sprint(id), most))
		if res.Err != nil {
			return false
		}
		require.True(t, res.Allowed)
		require.Equal(t, id <= ids, res.Again, "id %d of %d", id, ids)
		require.Equal(t, most-id, res.Remaining)
		ids = max(ids, id)
		return true
	}
	for ids < 20 {
		require.True(t, ask(ids+1))
	}
	from := c.Master(slot)
	to := 1 - from
	answers := 0
	for range 3 {
		c.Move(slot, from, to, func() {
			for _, id := range []int64{1, ids, ids + 1} {
				if ask(id) {
					answers++
				}
			}
		})
		from, to = to, from
		for id := range ids {
			require.Eventually(t, func() bool { return ask(id + 1) }, 10*time.Second, time.Millisecond)
		}
		require.Eventually(t, func() bool { return ask(ids + 1) }, 10*time.Second, time.Millisecond)
	}
	t.Logf("%d answers while the slot moved, %d ids", answers, ids)
	states := askAll(t, e, conformance.Inspect(key))[0].States
	require.Len(t, states, 1)
	require.Equal(t, ids, states[0].Used)
}

// A renewal fails while the key's ids and its record are on different nodes. It is not sent again and again
// until its deadline.
func TestARenewalFailsAtOnceWhileItsSlotMoves(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, nil)
	e := openAlways(t, 5*time.Second, c.URL())
	const key = "moves"
	ready(t, e, key, "a", "b", "c", "d", "e", "f") // keys of both nodes
	askAll(t, e, acquire(key, "1", 5))
	slot := slotOf(key)
	from := c.Master(slot)
	calls := func() int { return functionCalls(t, c.Nodes[0]) + functionCalls(t, c.Nodes[1]) }
	failed := 0
	for range 2 {
		c.Move(slot, from, 1-from, func() {
			before := calls()
			if res := conformance.Ask(e, renew(key, "1")); res.Err != nil {
				failed++
			} else {
				require.True(t, res.Renewed)
			}
			require.LessOrEqual(t, calls()-before, 4)
		})
		from = 1 - from
		require.Eventually(t, func() bool { return conformance.Ask(e, renew(key, "1")).Renewed }, 10*time.Second, time.Millisecond)
	}
	require.Positive(t, failed)
}

// A node that is full refuses admissions. It still runs the functions that admit nothing, whatever shares a pipeline with them.
func TestFunctionsThatAdmitNothingRunOnAFullNode(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	askAll(t, e, charge("a", 5), charge("b", 5), acquire("slots", "1", 3), acquire("slots", "2", 3), reserve("r", "1", 100, 30))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	require.ErrorContains(t, conformance.Ask(e, charge("c", 5)).Err, "OOM")
	p := engine.Pipeline{Requests: []engine.Request{
		charge("c", 5), conformance.Reset("a"), charge("b", 5),
		acquire("slots", "3", 3), release("slots", "1"), renew("slots", "2"), settle("r", "1", 20), reserve("r", "2", 100, 1),
		conformance.Inspect("r"),
	}}
	e.Do(&p)
	for _, i := range []int{0, 2, 3, 7} {
		require.ErrorContains(t, p.Results[i].Err, "OOM", i)
	}
	require.True(t, p.Results[1].Reset)
	require.True(t, p.Results[4].Settled.Settled)
	require.True(t, p.Results[5].Renewed)
	require.EqualValues(t, 20, p.Results[6].Settled.Charged)
	require.EqualValues(t, 20, p.Results[8].States[0].Used)
	require.Equal(t, "refuses", e.queues.OpenAll().Queues[0].Condition(), "what it still runs does not show that it admits again")
	s.Do("CONFIG", "SET", "maxmemory", "0")
	require.EqualValues(t, 4, askAll(t, e, charge("a", 5))[0].Remaining)
	require.EqualValues(t, 1, askAll(t, e, acquire("slots", "4", 3))[0].Remaining)
}
