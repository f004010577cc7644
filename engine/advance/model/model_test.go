package model

import (
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newWorld returns a world without proxies.
func newWorld(rng *rand.Rand, m *mutant) *world {
	return &world{rng: rng, now: 1e9 + rng.Int64N(1e6), mutant: m, timeout: 60_000, home: NewHome(),
		truth: map[Measure]Ledger{}, lenient: map[Measure]Ledger{}}
}

// randomSpecs returns specs of one algorithm, often with other limits on the same windows.
func randomSpecs(rng *rand.Rand) []Bounds {
	kind := Algorithm(rng.IntN(4))
	windows := []int64{800 + rng.Int64N(400), 2000 + rng.Int64N(1000)}
	strict, buckets := rng.IntN(2) == 0, []int64{1, 2, 10}[rng.IntN(3)]
	most := math.Pow(10, 2+1.7*rng.Float64())
	var all []Bounds
	for range 1 + rng.IntN(3) {
		var s Bounds
		for _, j := range rng.Perm(2)[:1+rng.IntN(2)] {
			p := Bound{Measure: Measure{Algorithm: kind, Window: windows[j]}, Limit: 8 + rng.Int64N(int64(most)), Strict: strict}
			switch kind {
			case Counter:
				p.Parameter = buckets
			case Bucket:
				p.Parameter = max(int64(most)/2, 1)
			}
			s = append(s, p)
		}
		all = append(all, s)
	}
	return all
}

// chaos returns a world of a kind that the seed says: with one fault, several or none.
func chaos(seed uint64, m *mutant) *world {
	rng := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(rng, m)
	specs := randomSpecs(rng)
	for i := range specs {
		for j := range specs[i] { // of fixed windows, every other one is of a calendar
			if m := &specs[i][j].Measure; m.Algorithm == Fixed && seed%2 == 0 {
				m.Algorithm = Calendar
			}
		}
	}
	far := rng.IntN(6) == 0 // the node is far away, and windows are longer
	distance := int64(50 + rng.IntN(500))
	if far {
		distance = 10_000
		for i := range specs {
			for j := range specs[i] {
				specs[i][j].Window *= 4
			}
		}
	}
	w.home.FirstCalm = 1 + rng.Int64N(500)
	fault := func() bool { return rng.IntN(3) == 0 }
	if fault() {
		w.faults.loss = 0.1 * rng.Float64()
	}
	if fault() {
		w.faults.late, w.faults.lateBy = 0.1*rng.Float64(), 1+rng.Int64N(1_500_000)
	}
	if fault() {
		w.faults.twice = 0.3 * rng.Float64()
	}
	w.faults.silent = w.faults.loss > 0 || w.faults.late > 0
	start := func() *proxy {
		return w.start(distance/2+rng.Int64N(distance), specs, 4e-4*(2*rng.Float64()-1), time.Duration(rng.Int64N(1e12)))
	}
	for range 1 + rng.IntN(4) {
		start()
	}
	w.slack = 2000/16 + 4*distance/1000 + 3
	if !far {
		w.slack = 250/16 + 8
	}
	load := 0.2 * math.Pow(15, rng.Float64()) // as a multiple of the first limit
	rate := load * float64(specs[0][0].Limit) / float64(specs[0][0].Window)
	if specs[0][0].Algorithm == Bucket {
		rate = load * float64(specs[0][0].Parameter) / float64(specs[0][0].Window)
	}
	pause := int64(1000/rate) + 1
	swing, favourite := fault(), 0
	w.every(func() int64 {
		if swing && w.now/2_000_000%2 == 0 { // the demand goes up and down
			return rng.Int64N(10 * pause)
		}
		return rng.Int64N(2 * pause)
	}, func() {
		if rng.IntN(5000) == 0 {
			favourite = rng.IntN(len(specs))
		}
		i := favourite
		if rng.IntN(200) == 0 {
			i = rng.IntN(len(specs))
		}
		cost := int64(1)
		switch {
		case rng.IntN(500) == 0:
			cost = 0
		case rng.IntN(20) == 0:
			cost = 1 + rng.Int64N(5)
		}
		w.proxies[rng.IntN(len(w.proxies))].request(i, cost)
	})
	rare := func(requests int64) func() int64 { return func() int64 { return rng.Int64N(2 * requests * pause) } }
	if fault() {
		w.every(rare(3000), func() {
			w.seen.resets++
			w.home.Reset(w.clock())
			w.mutant.reset(w)
			clear(w.truth)
			clear(w.lenient)
			w.publish()
		})
	}
	if fault() {
		w.faults.silent = true
		w.every(rare(3000), func() {
			i := rng.IntN(len(w.proxies))
			w.seen.kills++
			w.proxies[i].dead = true
			w.proxies[i] = w.proxies[len(w.proxies)-1]
			w.proxies = w.proxies[:len(w.proxies)-1]
			start()
		})
	}
	if fault() {
		w.faults.silent = true
		w.every(rare(2000), func() { w.proxies[rng.IntN(len(w.proxies))].stop(rng.Int64N(3_000_000), rng.IntN(2) == 0) })
	}
	if fault() {
		w.faults.silent = true
		w.every(rare(1000), func() {
			w.seen.cuts++
			p := w.proxies[rng.IntN(len(w.proxies))]
			p.cutOff = w.now + rng.Int64N(1_000_000)
			i := rng.IntN(len(specs))
			w.after(w.untilDeadline(i)+rng.Int64N(40_000)-39_000, func() {
				p.burst(i)
				w.siege(specs[i])
			})
		})
	}
	if fault() {
		w.every(rare(2000), func() { // a wall clock is set; a suspension at the same time would hide how long it took
			if p := w.proxies[rng.IntN(len(w.proxies))]; !p.stopped && p.asleep == 0 {
				p.wall += time.Duration(rng.Int64N(4e9) - 2e9)
			}
		})
	}
	return w
}

// TestNoLimitIsExceeded runs random worlds for MODEL_STEPS steps, 400,000 unless set.
func TestNoLimitIsExceeded(t *testing.T) {
	total, perWorld := 400_000, 40_000
	if s := os.Getenv("MODEL_STEPS"); s != "" {
		n, err := strconv.Atoi(s)
		require.NoError(t, err)
		total = n
	}
	var steps int
	var sum tally
	for seed := uint64(1); steps < total; seed++ {
		w := chaos(seed, sound())
		w.run(perWorld)
		require.Empty(t, w.broken, "seed %d", seed)
		steps += w.steps
		sum.add(w.seen)
	}
	t.Logf("%d steps: %+v", steps, sum)
	require.NotZero(t, sum.drawn)
	require.NotZero(t, sum.denied)
	require.NotZero(t, sum.misdated)
	require.NotZero(t, sum.dated)
	require.NotZero(t, sum.recalls)
	require.NotZero(t, sum.lapsed)
}

func (t *tally) add(o tally) {
	t.requests += o.requests
	t.drawn += o.drawn
	t.admitted += o.admitted
	t.denied += o.denied
	t.misdated += o.misdated
	t.dated += o.dated
	t.recalls += o.recalls
	t.lapsed += o.lapsed
	t.calls += o.calls
	t.resets += o.resets
	t.kills += o.kills
	t.stops += o.stops
	t.cuts += o.cuts
}

func TestGrant(t *testing.T) {
	require.EqualValues(t, 100, grant(100, 1000, 1000, 1, 8))
	require.EqualValues(t, 250, grant(600, 1000, 1000, 2, 8), "half of the room for two proxies")
	require.EqualValues(t, 7, grant(600, 69, 1000, 1, 7), "a sixteenth of the limit stays")
	require.Zero(t, grant(600, 60, 1000, 1, 7))
	require.Zero(t, grant(7, 1000, 1000, 1, 8), "it would not pay")
}
