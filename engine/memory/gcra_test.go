package memory

import (
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// After any idle time, CL.THROTTLE never admits more than burst + 1 + rate x time,
// and admits what it denied a retry later.
func TestThrottleBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 60 {
		e, clock := setClock(t, Config{})
		rate := conformance.Throttle("k", rng.Int64N(20), 1+rng.Int64N(1<<rng.IntN(14)), 1+rng.Int64N(10), 0)
		type charge struct{ at, units int64 }
		var all []charge
		for range 300 {
			r := rate
			r.Cost = rng.Int64N(4)
			d := conformance.Ask(e, r).Decision
			if d.Allowed && r.Cost > 0 {
				all = append(all, charge{*clock, r.Cost})
			}
			if !d.Allowed && d.RetryAfter > 0 {
				later := clone(t, e, clock)
				*clock += d.RetryAfter + 1
				require.True(t, conformance.Ask(later, r).Allowed)
				*clock -= d.RetryAfter + 1
			}
			*clock += rng.Int64N(1 << rng.IntN(12))
		}
		for i := range all {
			var units int64
			for _, c := range all[i:] {
				units += c.units
				if (units-rate.Windows[0].Limit)*rate.Manner > (c.at-all[i].at)*1_000_000 {
					t.Fatalf("%+v admitted %d units in %d ms", rate.Spec, units, c.at-all[i].at)
				}
			}
		}
	}
}

// clone returns an engine in which the key k is as it is in e.
func clone(t *testing.T, e *Engine, clock *int64) *Engine {
	other, otherClock := setClock(t, Config{})
	*otherClock = *clock
	other.cfg.Now = e.cfg.Now
	key := []byte("k")
	h := other.stripe(key)
	k := h.insert(key)
	k.states.State, k.count = e.stripe(key).keys["k"].states.State, 1
	h.heap.add(k, k.end())
	other.keys.Add(1)
	return other
}

// Other commands on the key go by its newest charge when the clock steps back, CL.THROTTLE by the clock.
func TestThrottleCountsAfterTheClockSteppedBack(t *testing.T) {
	e, clock := setClock(t, Config{})
	*clock += 20_000
	require.True(t, conformance.Ask(e, conformance.Slide("k", 10, 60_000, 1)).Allowed)
	*clock -= 20_000
	r := conformance.Throttle("k", 9, 1, 1, 10)
	require.True(t, conformance.Ask(e, r).Allowed)
	require.True(t, conformance.Ask(e, conformance.Slide("k", 10, 1000, 1)).Allowed, "a further window")
	require.False(t, conformance.Ask(e, r).Allowed)
}

func TestThrottleEndsWhenDrained(t *testing.T) {
	e, clock := setClock(t, Config{})
	r := conformance.Throttle("k", 9, 1, 1, 3)
	require.True(t, conformance.Ask(e, r).Allowed)
	*clock += 2999
	e.sweepAll(*clock + linger)
	states := conformance.Ask(e, conformance.Inspect("k")).States
	require.Len(t, states, 1)
	states[0].Rate = 0
	require.Equal(t, engine.Inspection{Kind: limit.GCRA, Window: 10_000, Used: 1, Limit: 10, Remaining: 9, Node: "embedded", TTL: 1}, states[0])
	*clock++
	e.sweepAll(*clock + linger)
	require.Zero(t, e.Memory())
}
