package shard

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// chaos makes a world with everything at once: clocks apart, messages lost and late,
// proxies that crash, nodes that go away with and without their memory, limits that
// change, several windows, resets, splits that cool and come again.
func chaos(seed uint64, m mutant) (*world, []*proxy) {
	rng := rand.New(rand.NewPCG(seed, 1))
	w := newWorld(rng, 2+rng.IntN(4), Rules{Lease: 20 + rng.Int64N(800), Grace: rng.Int64N(60)}, m)
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
	asks := chaosAsks(rng)
	proxies := make([]*proxy, 1+rng.IntN(4))
	demand := 0.2 * math.Pow(15, rng.Float64()) // of the first limit
	first := asks[0].Pairs[0]
	pause := int64(5*1000*float64(first.Window)/float64(first.Limit)/demand)*int64(len(proxies)) + 1
	favourite, fickle := 0, 10+rng.IntN(500)
	for i := range proxies {
		p := newProxy(w, rng.IntN(2) == 0)
		proxies[i] = p
		w.every(func() int64 { return rng.Int64N(2 * pause) }, func() {
			if rng.IntN(10*fickle) == 0 {
				favourite = rng.IntN(len(asks)) // limits change now and then, and now and then alternate
			}
			pairs := favourite
			if rng.IntN(fickle) == 0 {
				pairs = rng.IntN(len(asks))
			}
			a := asks[pairs]
			smallest := a.Pairs[0].Limit
			for _, pair := range a.Pairs {
				smallest = min(smallest, pair.Limit)
			}
			a.Cost = 1 + rng.Int64N(min(3, smallest))
			if rng.IntN(30) == 0 {
				a.Cost = 1 + rng.Int64N(smallest) // more than any part holds, perhaps
			}
			a.N = 1 + rng.Int64N(4)
			p.ask(a, pairs, rng.IntN(len(w.nodes)))
		})
	}
	rare := func(asks int64) func() int64 { // on average once in so many asks
		mean := asks * pause / int64(len(proxies))
		return func() int64 { return rng.Int64N(2*mean + 1) }
	}
	w.every(rare(300), func() { proxies[rng.IntN(len(proxies))].crash() })
	w.every(rare(1000), func() { proxies[rng.IntN(len(proxies))].reset() })
	w.every(rare(1000), func() { w.nodes[0].home.Parts = 1 + rng.IntN(len(w.nodes)) })
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

// chaosAsks makes the limits that callers bring: often the same states with other
// limits, sometimes other states too.
func chaosAsks(rng *rand.Rand) []Ask {
	windows := []int64{20 + rng.Int64N(100), 120 + rng.Int64N(100), 220 + rng.Int64N(100)}
	buckets := int64(0)
	if rng.IntN(3) == 0 {
		buckets = 1 + rng.Int64N(8)
	}
	most := int64(math.Pow(10, 0.5+3.2*math.Sqrt(rng.Float64())))
	asks := make([]Ask, 1+rng.IntN(4))
	for i := range asks {
		asks[i].Strict = true
		for _, j := range rng.Perm(3)[:1+rng.IntN(2)] {
			limit := 1 + rng.Int64N(most)
			asks[i].Pairs = append(asks[i].Pairs, Pair{State{Window: windows[j], Buckets: buckets}, limit})
		}
	}
	return asks
}

func (w *world) every(pause func() int64, do func()) {
	w.after(1+pause(), func() {
		do()
		w.every(pause, do)
	})
}

// The protocol admits no more than the limit in any trailing window of true time, and
// denies only when what was read since the ask arrived leaves no room. SPLIT_STEPS
// sets the number of steps.
func TestSplitChaos(t *testing.T) {
	total, one := 400_000, 20_000
	if s := os.Getenv("SPLIT_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		total = n
	}
	var steps, rounds int
	var asked, admitted, refused, lent int64
	for seed := uint64(1); steps < total; seed++ {
		w, proxies := chaos(seed, sound())
		w.run(one)
		require.Empty(t, w.broken, "seed %d", seed)
		steps, lent = steps+w.steps, lent+w.lent
		for _, p := range proxies {
			asked, admitted, refused = asked+p.asked, admitted+p.admitted, refused+p.refusals
			rounds = max(rounds, p.maxRounds)
		}
	}
	require.NotZero(t, admitted)
	require.NotZero(t, refused)
	require.NotZero(t, lent)
	t.Logf("%d steps, %d requests, %d admitted, %d denied, %d units admitted by parts, 0 past the limit; at most %d readings for one ask",
		steps, asked, admitted, refused, lent, rounds)
}

// Every rule is needed: without it the model finds a history that breaks the contract.
func TestSplitMutants(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			caught := ""
			for seed := m.seed; seed < m.seed+2000 && caught == ""; seed++ {
				w, _ := chaos(seed, m)
				w.run(20_000)
				if len(w.broken) > 0 {
					caught = w.broken[0]
					t.Logf("seed %d: %s", seed, caught)
				}
			}
			require.NotEmpty(t, caught)
		})
	}
}
