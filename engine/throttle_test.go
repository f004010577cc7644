package engine

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThrottleEmbedded(t *testing.T) {
	transcripts(t, func(t *testing.T, clock func() int64) Engine {
		return withoutJanitor(t, clock)
	}, "testdata/throttle.txt")
}

// After any idle time, never more than burst + 1 + rate x time.
func TestThrottleBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 3))
	for range 60 {
		e, clock := setClock(t, EmbeddedConfig{})
		r := Request{Op: OpThrottle, Key: []byte("k"), Throttle: Throttle{
			Burst: rng.Int64N(20), Count: 1 + rng.Int64N(1<<rng.IntN(14)), Period: 1 + rng.Int64N(10)}}
		type charge struct{ at, units int64 }
		var all []charge
		for range 300 {
			r.Cost = rng.Int64N(4)
			d := ask1(e, r).Decision
			if d.Allowed && r.Cost > 0 {
				all = append(all, charge{*clock, r.Cost})
			}
			if !d.Allowed && d.RetryAfter > 0 {
				later, _ := r.Throttle.decide(*clock+d.RetryAfter+1, e.stripe(r.Key).keys["k"].states.counter.newest, r.Cost)
				require.True(t, later.Allowed)
			}
			*clock += rng.Int64N(1 << rng.IntN(12))
		}
		interval := r.Throttle.interval()
		for i := range all {
			var units int64
			for _, c := range all[i:] {
				units += c.units
				if (units-r.Throttle.limit())*interval > (c.at-all[i].at)*nsPerMs {
					t.Fatalf("%+v admitted %d units in %d ms", r.Throttle, units, c.at-all[i].at)
				}
			}
		}
	}
}

func TestThrottleEndsWhenDrained(t *testing.T) {
	e, clock := setClock(t, EmbeddedConfig{})
	r := Request{Op: OpThrottle, Key: []byte("k"), Cost: 3, Throttle: Throttle{Burst: 9, Count: 1, Period: 1}}
	require.True(t, ask1(e, r).Allowed)
	*clock += 2999
	e.sweepAll(*clock)
	states := ask1(e, request(OpInspect, "k", 0, 0)).States
	require.Len(t, states, 1)
	states[0].Rate = 0
	require.Equal(t, State{Op: OpThrottle, Window: 10_000, Used: 1, Limit: 10, Remaining: 9, Node: "embedded", TTL: 1}, states[0])
	*clock++
	e.sweepAll(*clock)
	require.Zero(t, e.Memory())
}
