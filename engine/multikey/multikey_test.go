package multikey_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/multikey"
	"github.com/stretchr/testify/require"
)

// world is an engine whose requests a test can observe, delay and lose.
type world struct {
	clock    int64 // ms
	engine   *memory.Engine
	pipes    int                                             // pipelines asked
	before   func(p *engine.Pipeline)                        // runs before each; it may move the clock
	lose     func(r *engine.Request) (apply bool, lost bool) // says which requests get no answer
	policies []engine.FailPolicy                             // that were asked for by Fail
}

func newWorld(t *testing.T) *world {
	w := &world{clock: conformance.Base}
	w.engine = memory.New(memory.Config{Now: conformance.At(func() int64 { return w.clock })})
	t.Cleanup(func() { require.NoError(t, w.engine.Close()) })
	w.before = func(*engine.Pipeline) {}
	w.lose = func(*engine.Request) (bool, bool) { return true, false }
	return w
}

// do answers as the Redis engine does: a decision without an answer gets its FAIL policy, anything else an error.
func (w *world) do(p *engine.Pipeline) {
	w.pipes++
	w.before(p)
	p.Grow()
	for i := range p.Requests {
		apply, lost := w.lose(&p.Requests[i])
		one := engine.Pipeline{Requests: p.Requests[i : i+1]}
		if apply {
			w.engine.Do(&one)
			p.Results[i] = one.Results[0]
		}
		if lost {
			p.Results[i] = engine.Result{}
			w.fail(&p.Requests[i], &p.Results[i])
		}
	}
}

// fail answers by the request's own policy, which is CLOSED if it names none.
func (w *world) fail(r *engine.Request, res *engine.Result) {
	err := &engine.Unavailable{Node: "n1:6379", Why: "timeout", MaybeApplied: true}
	if r.Op != engine.OpDecide {
		res.Err = err
		return
	}
	if res.Fail = r.Fail; r.Fail == engine.FailDefault {
		res.Fail = engine.FailClosed
	}
	if w.policies = append(w.policies, res.Fail); res.Fail == engine.FailError {
		res.Err = err
		return
	}
	res.Decision = res.Fail.Decide(r, 250)
}

// ask sends one multi-key request.
func (w *world) ask(requests ...engine.Request) []engine.Result {
	p := engine.Pipeline{Requests: requests}
	requests[0].MoreKeys = len(requests) - 1
	p.Grow()
	multikey.Engine{Do: w.do, Now: conformance.At(func() int64 { return w.clock }), Fail: func(r, _ *engine.Request, res *engine.Result) {
		w.fail(r, res)
	}}.Ask(&p, 0)
	return p.Results
}

// counts returns the units of a key that count, and those that are held.
func (w *world) counts(key string) (used, held int64) {
	for _, s := range conformance.Ask(w.engine, conformance.Inspect(key)).States {
		used, held = used+s.Used, held+s.Held
	}
	return used, held
}

// requireCounts requires the given units in use of the keys a, b and c, and that no units are held.
func (w *world) requireCounts(t *testing.T, want ...int64) {
	t.Helper()
	for i, n := range want {
		used, held := w.counts(string(rune('a' + i)))
		require.Equal(t, []int64{n, 0}, []int64{used, held}, "%c: units used and held", 'a'+i)
	}
}

func decisions(results []engine.Result) (out []limit.Decision) {
	for _, res := range results {
		out = append(out, res.Decision)
	}
	return out
}

func TestAllKeysAreChargedOrNone(t *testing.T) {
	w := newWorld(t)
	request := func() []engine.Result {
		return w.ask(conformance.Slide("a", 5, 60_000, 2), conformance.Request(limit.Fixed, "b", 10, 10_000), conformance.Slide("c", 3, 1000, 1))
	}
	require.Equal(t, []limit.Decision{
		{Allowed: true, Limit: 5, Remaining: 3, ResetAfter: 60_001},
		{Allowed: true, Limit: 10, Remaining: 9, ResetAfter: 10_000},
		{Allowed: true, Limit: 3, Remaining: 2, ResetAfter: 1001},
	}, decisions(request()))
	require.Equal(t, 2, w.pipes, "calls: to hold and to settle")
	w.requireCounts(t, 2, 1, 1)
	require.True(t, request()[0].Allowed)
	w.requireCounts(t, 4, 2, 2)
	w.clock += 10
	denied := request()
	require.Equal(t, limit.Decision{Limit: 5, Remaining: 1, RetryAfter: 59_991, ResetAfter: 59_991}, denied[0].Decision)
	for i, remaining := range []int64{1, 8, 1} {
		require.False(t, denied[i].Allowed)
		require.Equal(t, remaining, denied[i].Remaining, "as without the request")
		require.Equal(t, i > 0, denied[i].RetryAfter == 0)
		require.Positive(t, denied[i].ResetAfter)
	}
	w.requireCounts(t, 4, 2, 2)
	denied = w.ask(conformance.Slide("a", 5, 60_000, 2), conformance.Slide("unused", 3, 1000, 1))
	require.Equal(t, limit.Decision{Limit: 3, Remaining: 3}, denied[1].Decision)
}

// After a charge, reset_after is that of a request for one key, also where a hold lapses in a later sub-window.
func TestResetAfterIsThatOfCharges(t *testing.T) {
	for _, length := range []int64{20, 1000, 7000, 60_000} {
		for _, buckets := range []int64{1, 5, 20} {
			for _, at := range []int64{0, 1, 300, 500, 999, 6500, 59_500, 59_999} {
				for _, kind := range conformance.Kinds(limit.Kind.Windowed) {
					w := newWorld(t)
					w.clock += at
					r := conformance.Request(kind, "a", 100, length)
					if kind == limit.Counter {
						r.Param = buckets
					}
					for range 3 {
						alone := r
						alone.Key = []byte("alone")
						want := conformance.Ask(w.engine, alone)
						require.Equal(t, want.Decision, w.ask(r, conformance.Slide("b", 100, 1000, 1))[0].Decision, "%+v at base+%d", r.Spec, at)
					}
				}
			}
		}
	}
}

// All keys are held under one random id, which is in one of the buckets of nodes.
func TestKeysAreHeldUnderOneID(t *testing.T) {
	w := newWorld(t)
	seen := map[engine.Digest]int{}
	w.lose = func(r *engine.Request) (bool, bool) {
		seen[r.Hold.ID]++
		require.True(t, r.Hold.MultiKey, "FAIL LOCAL decides the keys together")
		return true, false
	}
	for range 100 {
		w.ask(conformance.Slide("a", 1000, 60_000, 1), conformance.Slide("b", 1000, 60_000, 1))
	}
	require.Len(t, seen, 100)
	for id, n := range seen {
		require.Less(t, id[0], byte(16))
		require.Equal(t, 4, n, "holds and settles")
	}
}

// A key with cost 0 takes part in the decision, and nothing is held of it.
func TestKeyWithoutCostTakesPart(t *testing.T) {
	w := newWorld(t)
	require.True(t, conformance.Ask(w.engine, conformance.Slide("b", 1, 60_000, 1)).Allowed)
	for _, cost := range []int64{0, 1} {
		results := w.ask(conformance.Slide("a", 5, 60_000, cost), conformance.Slide("b", 1, 60_000, 0))
		require.False(t, results[0].Allowed)
		require.False(t, results[1].Allowed)
	}
	w.pipes = 0
	require.Equal(t, []limit.Decision{{Allowed: true, Limit: 5, Remaining: 5}, {Allowed: true, Limit: 1, Remaining: 1}},
		decisions(w.ask(conformance.Slide("a", 5, 60_000, 0), conformance.Slide("c", 1, 60_000, 0))))
	require.Equal(t, 1, w.pipes, "there is nothing to settle")
	w.requireCounts(t, 0, 1, 0)
	require.Equal(t, []limit.Decision{{Allowed: true, Limit: 5, Remaining: 5}, {Allowed: true, Limit: 1, ResetAfter: 60_001}},
		decisions(w.ask(conformance.Slide("a", 5, 60_000, 0), conformance.Slide("c", 1, 60_000, 1))))
	w.requireCounts(t, 0, 1, 1)
}

// Units that another request holds for longer keep their key from being empty.
func TestResetAfterIsThatOfHoldsThatLastLonger(t *testing.T) {
	w := newWorld(t)
	other := conformance.Slide("a", 5, 1000, 1)
	other.Hold = &engine.Hold{ID: engine.DigestOf([]byte("other")), TTL: 5000}
	require.True(t, conformance.Ask(w.engine, other).Allowed)
	want := conformance.Ask(w.engine, conformance.Slide("a", 5, 1000, 0)).ResetAfter
	require.GreaterOrEqual(t, want, int64(5000))
	require.Equal(t, want, w.ask(conformance.Slide("a", 5, 1000, 1), conformance.Slide("b", 5, 1000, 1))[0].ResetAfter)
}

func TestTheFirstOfSeveralKeysThatDoNotAnswerHasThePolicy(t *testing.T) {
	w := newWorld(t)
	requests := []engine.Request{conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 60_000, 1), conformance.Slide("c", 5, 60_000, 1)}
	requests[0].Fail, requests[1].Fail = engine.FailOpen, engine.FailClosed
	w.lose = func(r *engine.Request) (bool, bool) { return true, string(r.Key) != "c" }
	for _, res := range w.ask(requests...) {
		require.Equal(t, engine.FailOpen, res.Fail)
		require.True(t, res.Allowed)
	}
}

// If a key's node does not answer, the key's FAIL policy answers for all keys, and the units held of the others are given back.
func TestPolicyOfTheKeyThatDoesNotAnswerAnswersForAll(t *testing.T) {
	for _, c := range []struct {
		policy engine.FailPolicy
		want   limit.Decision
	}{
		{engine.FailOpen, limit.Decision{Allowed: true, Limit: 5, Remaining: -1}},
		{engine.FailClosed, limit.Decision{Limit: 5, Remaining: -1, RetryAfter: 250, ResetAfter: 250}},
		{engine.FailError, limit.Decision{}},
	} {
		for i := range 6 {
			away, applied := i/2, i%2 == 1 // the key that does not answer, and whether its node ran what it got
			t.Run(fmt.Sprintf("%s, key %d, applied %t", c.policy, away, applied), func(t *testing.T) {
				w := newWorld(t)
				requests := []engine.Request{conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 60_000, 1), conformance.Slide("c", 5, 60_000, 1)}
				requests[away].Fail = c.policy
				w.lose = func(r *engine.Request) (bool, bool) {
					lost := string(r.Key) == string(requests[away].Key) && r.Hold != nil
					return !lost || applied && r.Op == engine.OpDecide, lost
				}
				for _, res := range w.ask(requests...) {
					require.Equal(t, c.want, res.Decision)
					require.Equal(t, c.policy, res.Fail)
					if c.policy == engine.FailError {
						require.ErrorContains(t, res.Err, "UNAVAILABLE n1:6379: timeout")
					}
				}
				for j, r := range requests {
					if j != away {
						_, held := w.counts(string(r.Key))
						require.Zero(t, held, "held of %s after the answer", r.Key)
					}
				}
				w.clock += 1008 // a hold that nobody could release
				w.requireCounts(t, 0, 0, 0)
			})
		}
	}
}

// A lost settle may have charged its key. The other keys are charged: no limit is exceeded, and nothing stays held.
func TestLostSettleAnswersByItsPolicy(t *testing.T) {
	for _, applied := range []bool{false, true} {
		w := newWorld(t)
		w.lose = func(r *engine.Request) (bool, bool) {
			lost := string(r.Key) == "b" && r.Op == engine.OpSettle
			return !lost || applied, lost
		}
		for _, res := range w.ask(conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 60_000, 1)) {
			require.Equal(t, engine.FailClosed, res.Fail)
			require.False(t, res.Allowed)
		}
		w.clock += 1008
		if applied {
			w.requireCounts(t, 1, 1)
		} else {
			w.requireCounts(t, 1, 0)
		}
	}
}

// Holds that took too long are not settled, because one may have lapsed. The first key's FAIL policy answers.
func TestSlowHoldsAreGivenBack(t *testing.T) {
	w := newWorld(t)
	took := int64(499)
	w.before = func(p *engine.Pipeline) {
		if p.Requests[0].Op == engine.OpDecide {
			w.clock += took
		}
	}
	request := func() []engine.Result {
		a := conformance.Slide("a", 5, 60_000, 1)
		a.Fail = engine.FailOpen
		return w.ask(a, conformance.Slide("b", 5, 60_000, 1))
	}
	require.Equal(t, engine.FailDefault, request()[0].Fail)
	w.requireCounts(t, 1, 1)
	took = 500
	for _, res := range request() {
		require.Equal(t, engine.FailOpen, res.Fail)
		require.EqualValues(t, -1, res.Remaining)
	}
	w.requireCounts(t, 1, 1)
}

// A hold that lapsed before it was settled charges nothing, and its key's FAIL policy answers.
func TestHoldThatLapsedIsNotCharged(t *testing.T) {
	w := newWorld(t)
	w.before = func(p *engine.Pipeline) {
		if p.Requests[0].Op == engine.OpSettle {
			w.clock += 1008
		}
	}
	for _, res := range w.ask(conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 60_000, 1)) {
		require.Equal(t, engine.FailClosed, res.Fail)
	}
	w.requireCounts(t, 0, 0)
}

// An error about one key is the error of the whole request, and charges nothing.
func TestErrorOfOneKeyIsThatOfAll(t *testing.T) {
	w := newWorld(t)
	for i := range int64(engine.MaxStates) {
		require.NoError(t, conformance.Ask(w.engine, conformance.Slide("b", 5, 60_000+i, 1)).Err)
	}
	for _, res := range w.ask(conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 1000, 1)) {
		require.ErrorIs(t, res.Err, engine.ErrStates)
	}
	w.requireCounts(t, 0)
}

// Requests for overlapping sets of keys never charge more than a limit, and leave nothing held.
func TestOverlappingQuestions(t *testing.T) {
	now := conformance.At(func() int64 { return conformance.Base })
	e := memory.New(memory.Config{Now: now})
	joined := multikey.Engine{Do: e.Do, Now: now, Fail: func(_, _ *engine.Request, _ *engine.Result) { panic("no answer") }}
	const workers, rounds, most = 8, 300, 500
	admitted := make([][3]int, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				first, second := (w+i)%3, (w+i+1+i%2)%3
				p := engine.Pipeline{Requests: []engine.Request{
					conformance.Slide(string(rune('a'+first)), most, 600_000, 1), conformance.Slide(string(rune('a'+second)), most, 600_000, 1),
				}}
				p.Requests[0].MoreKeys = 1
				p.Grow()
				joined.Ask(&p, 0)
				if p.Results[0].Allowed != p.Results[1].Allowed {
					panic("one key is admitted and the other is not")
				}
				if p.Results[0].Allowed {
					admitted[w][first]++
					admitted[w][second]++
				}
			}
		})
	}
	wg.Wait()
	for k := range 3 {
		sum := 0
		for _, a := range admitted {
			sum += a[k]
		}
		states := conformance.Ask(e, conformance.Inspect(string(rune('a'+k)))).States
		require.Len(t, states, 1)
		require.EqualValues(t, sum, states[0].Used)
		require.Zero(t, states[0].Held)
		require.LessOrEqual(t, sum, most)
		require.Greater(t, sum, most/2)
	}
	require.NoError(t, e.Close())
}
