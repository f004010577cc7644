package model

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// chaos returns a world with all faults at once: clocks differ, messages are lost or late,
// proxies crash, nodes go away and return with or without their memory, and limits change.
// Demands have several windows, and the key is reset, or stops being split and is split again.
func chaos(seed uint64, m mutant) (*world, []*proxy) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(rng, 2+rng.IntN(4), lease.Rules{Lease: 20 + rng.Int64N(800), Grace: rng.Int64N(60)}, m)
	w.timeout = 20_000
	if rng.IntN(4) > 0 {
		w.loss = rng.Float64() * 0.1
	}
	late := rng.Float64() * 0.1
	w.latency = func() int64 {
		if rng.Float64() < late {
			return rng.Int64N(2 * 1000 * (w.rules.Lease + 300))
		}
		return 50 + rng.Int64N(1000)
	}
	demands := chaosDemands(rng)
	proxies := make([]*proxy, 1+rng.IntN(4))
	load := 0.2 * math.Pow(15, rng.Float64()) // As a multiple of the first limit.
	first := demands[0].Pairs[0]
	pause := int64(5*1000*float64(first.Window)/float64(first.Limit)/load)*int64(len(proxies)) + 1
	favourite, fickle := 0, 10+rng.IntN(500)
	for i := range proxies {
		p := newProxy(w, rng.IntN(2) == 0)
		proxies[i] = p
		w.every(func() int64 { return rng.Int64N(2 * pause) }, func() {
			if rng.IntN(10*fickle) == 0 {
				favourite = rng.IntN(len(demands)) // Limits change from time to time, and sometimes alternate.
			}
			limits := favourite
			if rng.IntN(fickle) == 0 {
				limits = rng.IntN(len(demands))
			}
			d := demands[limits]
			smallest := d.Pairs[0].Limit
			for _, pair := range d.Pairs {
				smallest = min(smallest, pair.Limit)
			}
			d.Cost = 1 + rng.Int64N(min(3, smallest))
			if rng.IntN(30) == 0 {
				d.Cost = 1 + rng.Int64N(smallest) // This may be more than any shard holds.
			}
			d.N = 1 + rng.Int64N(4)
			p.demand(d, limits, rng.IntN(len(w.nodes)))
		})
	}
	rare := func(demands int64) func() int64 { // The pauses between events that happen once per this number of demands, on average.
		mean := demands * pause / int64(len(proxies))
		return func() int64 { return rng.Int64N(2*mean + 1) }
	}
	w.every(rare(300), func() { proxies[rng.IntN(len(proxies))].crash() })
	w.every(rare(1000), func() { proxies[rng.IntN(len(proxies))].reset() })
	w.every(rare(1000), func() { w.nodes[0].home.Shards = 1 + rng.IntN(len(w.nodes)) })
	w.every(rare(10+rng.Int64N(1000)), func() {
		n := w.nodes[rng.IntN(len(w.nodes))]
		n.up = false
		if n != w.nodes[0] && rng.IntN(2) == 0 {
			n.lose()
		}
		w.after(rng.Int64N(2+rng.Int64N(200_000)), func() { n.up = true })
	})
	return w, proxies
}

// chaosDemands returns demands, often with different limits on the same states, sometimes on
// different states.
func chaosDemands(rng *rand.Rand) []lease.Demand {
	windows := []int64{20 + rng.Int64N(100), 120 + rng.Int64N(100), 220 + rng.Int64N(100)}
	buckets := int64(0)
	if rng.IntN(3) == 0 {
		buckets = 1 + rng.Int64N(8)
	}
	most := int64(math.Pow(10, 0.5+3.2*math.Sqrt(rng.Float64())))
	demands := make([]lease.Demand, 1+rng.IntN(4))
	for i := range demands {
		demands[i].Strict = true
		for _, j := range rng.Perm(3)[:1+rng.IntN(2)] {
			limit := 1 + rng.Int64N(most)
			demands[i].Pairs = append(demands[i].Pairs, lease.Pair{StateName: lease.StateName{Window: windows[j], Buckets: buckets}, Limit: limit})
		}
	}
	return demands
}

// every schedules do repeatedly, with pauses in between.
func (w *world) every(pause func() int64, do func()) {
	w.after(1+pause(), func() {
		do()
		w.every(pause, do)
	})
}

// The protocol never admits more than the limit in any trailing window of true time, and
// denies only when what shards reported since the demand arrived leaves no room.
//
// The environment variable MODEL_STEPS sets the total number of steps in all worlds. It is
// 400,000 by default.
func TestChaosBreaksNoLimit(t *testing.T) {
	total, perWorld := 400_000, 20_000
	if s := os.Getenv("MODEL_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		total = n
	}
	var steps, rounds int
	var requests, admitted, denied, lent int64
	for seed := uint64(1); steps < total; seed++ {
		w, proxies := chaos(seed, sound())
		w.run(perWorld)
		require.Empty(t, w.broken, "seed %d", seed)
		steps, lent = steps+w.steps, lent+w.lent
		for _, p := range proxies {
			requests, admitted, denied = requests+p.requests, admitted+p.admitted, denied+p.denials
			rounds = max(rounds, p.maxRounds)
		}
	}
	require.NotZero(t, admitted)
	require.NotZero(t, denied)
	require.NotZero(t, lent)
	t.Logf("%d steps, %d requests, %d admitted, %d denied, %d units admitted by shards, no limit exceeded; at most %d rounds of recalls for a demand",
		steps, requests, admitted, denied, lent, rounds)
}
