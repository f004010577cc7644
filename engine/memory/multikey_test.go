package memory

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// and sends one multi-key request.
func and(e *Engine, requests ...engine.Request) []engine.Result {
	requests[0].MoreKeys = len(requests) - 1
	p := engine.Pipeline{Requests: requests}
	e.Do(&p)
	return p.Results
}

// Multi-key requests leave no ids behind that count towards a bound of their keys.
func TestMultiKeyRequestsRememberNothing(t *testing.T) {
	e, _ := setClock(t, Config{})
	for range engine.MaxIDs + 1 {
		res := and(e, conformance.Slide("a", 1e9, 60_000, 1), conformance.Slide("b", 1e9, 60_000, 1))
		require.NoError(t, res[0].Err)
		require.True(t, res[0].Allowed)
	}
	require.NoError(t, conformance.Ask(e, reserve("a", 1e9, 60_000, 1, "x", 5000)).Err)
}

// Expired keys make room for holds and for multi-key requests, too.
func TestExpiredKeysMakeRoomForHoldsAndSeveralKeys(t *testing.T) {
	for name, ask := range map[string]func(e *Engine) engine.Result{
		"hold": func(e *Engine) engine.Result { return conformance.Ask(e, reserve("new", 5, 60_000, 1, "x", 1000)) },
		"several keys": func(e *Engine) engine.Result {
			return and(e, conformance.Slide("new", 5, 60_000, 1), conformance.Slide("newer", 5, 60_000, 1))[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			e, clock := setClock(t, Config{MaxMemory: 64 << 10})
			for i := 0; e.Refused() == 0; i++ {
				conformance.Ask(e, conformance.Slide(fmt.Sprint(i), 5, 1000, 1))
			}
			require.Equal(t, engine.FailClosed, ask(e).Fail)
			*clock += 1001 + linger
			res := ask(e)
			require.Equal(t, engine.FailDefault, res.Fail)
			require.True(t, res.Allowed)
		})
	}
}

// A request without an id reports the lapsed holds that it removes, alone or together with others.
func TestLapsedHoldsAreReportedOnce(t *testing.T) {
	e, clock := setClock(t, Config{})
	for _, ask := range []func() engine.Result{
		func() engine.Result { return conformance.Ask(e, conformance.Slide("k", 50, 60_000, 1)) },
		func() engine.Result {
			return and(e, conformance.Slide("k", 50, 60_000, 1), conformance.Slide("other", 50, 60_000, 1))[0]
		},
	} {
		for i := range 3 {
			require.True(t, conformance.Ask(e, reserve("k", 50, 60_000, 1, i+int(*clock), 1000)).Allowed)
		}
		*clock += 1100
		require.EqualValues(t, 3, ask().Lapsed)
		require.Zero(t, ask().Lapsed)
	}
}

// Multi-key requests about overlapping sets of keys, in any order, charge all of their keys or none, whatever else is
// done to the keys.
func TestMultiKeyRequestsRunConcurrently(t *testing.T) {
	e := Open(Config{})
	const workers, rounds, keys, most = 8, 500, 6, 1000
	var charged [keys]atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				var of []int
				var requests []engine.Request
				for j := range 1 + (w+i)%keys {
					k := (w*i + j*(1+4*(w%2))) % keys
					of = append(of, k)
					requests = append(requests, conformance.Slide(fmt.Sprint(k), most, 600_000, 1))
				}
				results := and(e, requests...)
				for j, res := range results {
					if res.Err != nil || res.Fail != engine.FailDefault || res.Allowed != results[0].Allowed {
						panic(fmt.Sprintf("key %d: %+v", of[j], res))
					}
					if res.Allowed {
						charged[of[j]].Add(1)
					}
				}
				conformance.Ask(e, conformance.Reset("other"))
				r := reserve(fmt.Sprint(i%keys), most, 600_000, 1, w, 60_000)
				conformance.Ask(e, r)
				conformance.Ask(e, ended(r, 0))
			}
		})
	}
	wg.Wait()
	for k := range keys {
		states := conformance.Ask(e, conformance.Inspect(fmt.Sprint(k))).States
		require.Len(t, states, 1)
		require.Equal(t, charged[k].Load(), states[0].Used)
		require.Zero(t, states[0].Held)
		require.LessOrEqual(t, states[0].Used, int64(most))
		require.Greater(t, states[0].Used, int64(most/10))
	}
	require.NoError(t, e.Close())
}

// If memory does not suffice for all keys, the FAIL policy of the first that does not fit answers for all, and none is
// charged. A denial needs no memory.
func TestMultiKeyRequestsWhenMemoryIsFull(t *testing.T) {
	e, _ := setClock(t, Config{})
	require.True(t, conformance.Ask(e, conformance.Slide("full", 1, 60_000, 1)).Allowed)
	before := e.Memory()
	a, b, c := conformance.Slide("a", 5, 60_000, 1), conformance.Slide("b", 5, 60_000, 1), conformance.Slide("c", 5, 60_000, 1)
	and(e, a, b, c)
	each := (e.Memory() - before) / 3
	for _, key := range []string{"a", "b", "c"} {
		conformance.Ask(e, conformance.Reset(key))
	}
	e.cfg.MaxMemory = before + each // room for one key
	b.Fail = engine.FailOpen
	for i, res := range and(e, a, b, c) {
		require.Equal(t, engine.FailOpen, res.Fail)
		require.Equal(t, limit.Decision{Allowed: true, Limit: 5, Remaining: -1}, res.Decision, "key %d", i)
	}
	require.Equal(t, before, e.Memory())
	require.EqualValues(t, 1, e.Keys())
	for _, res := range and(e, a, b, conformance.Slide("full", 1, 60_000, 1)) {
		require.Equal(t, engine.FailDefault, res.Fail)
		require.False(t, res.Allowed)
	}
	e.cfg.MaxMemory = before + 3*each
	require.True(t, and(e, a, b, c)[0].Allowed)
	require.Equal(t, e.cfg.MaxMemory, e.Memory())
}

// Holds of the keys that have lapsed are charged before the request is, and are counted.
func TestMultiKeyRequestsFollowLapses(t *testing.T) {
	e, clock := setClock(t, Config{})
	require.True(t, conformance.Ask(e, reserve("a", 5, 60_000, 3, "x", 100)).Allowed)
	*clock += 200
	a, b := conformance.Slide("a", 5, 60_000, 2), conformance.Slide("b", 5, 60_000, 2)
	res := and(e, a, b)
	require.Equal(t, limit.Decision{Allowed: true, Limit: 5, ResetAfter: 60_001}, res[0].Decision)
	require.EqualValues(t, 1, res[0].Lapsed)
	require.Zero(t, res[1].Lapsed)
	require.False(t, and(e, b, a)[0].Allowed)
}

// A key with too many windows is an error of the whole request, which charges nothing, even if another key denies.
func TestKeyWithTooManyWindowsFailsAMultiKeyRequest(t *testing.T) {
	e, _ := setClock(t, Config{})
	for i := range int64(engine.MaxStates) {
		require.NoError(t, conformance.Ask(e, conformance.Slide("b", 5, 60_000+i, 1)).Err)
	}
	require.True(t, conformance.Ask(e, conformance.Slide("c", 1, 60_000, 1)).Allowed)
	for _, res := range and(e, conformance.Slide("a", 5, 60_000, 1), conformance.Slide("c", 1, 60_000, 1), conformance.Slide("b", 5, 1000, 1)) {
		require.ErrorIs(t, res.Err, engine.ErrStates)
	}
	require.Empty(t, conformance.Ask(e, conformance.Inspect("a")).States)
}
