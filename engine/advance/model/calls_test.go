package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// fair returns a world without faults. Requests of cost 1 come at random to proxies in turn, at a rate of load(ms)
// times the limit, or none if load is nil.
func fair(proxies int, s Measure, limit, distance int64, load func(ms int64) float64) *world {
	rng := rand.New(rand.NewPCG(3, 4))
	w := newWorld(rng, sound())
	w.slack = 2000/16 + 4*distance/1000 + 3
	w.timeout = 1_000_000
	spec := Bounds{{Measure: s, Limit: limit, Strict: true}}
	for range proxies {
		w.start(distance, []Bounds{spec}, 0, 0)
	}
	if load == nil {
		return w
	}
	turn, began := 0, w.now
	w.every(func() int64 {
		rate := load((w.now-began)/1000) * float64(limit) / float64(s.Window) / 1000 // per us
		return int64(-math.Log(1-rng.Float64()) / rate)
	}, func() {
		turn++
		w.proxies[turn%proxies].request(0, 1)
	})
	return w
}

// runFor runs a world for some ms.
func runFor(t *testing.T, w *world, ms int64) {
	for until := w.now + ms*1000; w.now < until; {
		w.run(w.steps + 100)
		require.Empty(t, w.broken)
	}
}

func always(load float64) func(int64) float64 { return func(int64) float64 { return load } }

// While there is room, nearly all requests are decided in memory, by few calls whatever the rate, near the node and
// far from it.
func TestCallsStayFew(t *testing.T) {
	for _, c := range []struct {
		proxies  int
		window   int64
		limit    int64
		distance int64 // us
		drawn    float64
	}{
		{1, 1000, 10_000, 50, 0.97},
		{1, 60_000, 600_000, 50, 0.97},
		{1, 60_000, 6_000_000, 50, 0.98},
		{4, 1000, 40_000, 100, 0.95},
		{16, 10_000, 400_000, 100, 0.95},
		{3, 60_000, 600_000, 40_000, 0.97},
	} {
		w := fair(c.proxies, Measure{Algorithm: Log, Window: c.window}, c.limit, c.distance, always(0.5))
		runFor(t, w, 1000) // until all have an advance
		before := w.seen
		const seconds = 4
		runFor(t, w, 1000*seconds)
		requests := w.seen.requests - before.requests
		calls := float64(w.seen.calls-before.calls) / seconds / float64(c.proxies)
		drawn := float64(w.seen.drawn-before.drawn) / float64(requests)
		t.Logf("%d proxies, %d in %d ms, round trip %v us: %d requests/s, %.1f calls a second and proxy, %.1f %% decided in memory",
			c.proxies, c.limit, c.window, 2*c.distance, requests/seconds, calls, 100*drawn)
		require.LessOrEqual(t, calls, 20.0)
		require.GreaterOrEqual(t, drawn, c.drawn)
		require.Zero(t, w.seen.lapsed)
	}
}

// However unsteady the requests are, a key with room takes few calls, of all kinds together.
func TestCallsStayFewWhateverTheLoad(t *testing.T) {
	const most = 50 // requests a ms
	bursts := func(every, long int64) func(int64) float64 {
		return func(ms int64) float64 {
			if ms%every < long {
				return most
			}
			return 0
		}
	}
	for name, load := range map[string]func(ms int64) float64{
		"steady":            func(int64) float64 { return most / 5 },
		"short bursts":      bursts(50, 5),
		"bursts":            bursts(200, 20),
		"rare bursts":       bursts(500, 50),
		"waves":             func(ms int64) float64 { return most / 5 * (1 + math.Sin(float64(ms)/100)) },
		"growing ten times": func(ms int64) float64 { return 0.1 * math.Pow(10, float64(ms)/2500) },
	} {
		for _, window := range []int64{800, 1000, 60_000} {
			for _, busy := range []bool{false, true} { // whether the proxy stands still now and then
				t.Run(fmt.Sprintf("%s, %d ms, %v", name, window, busy), func(t *testing.T) {
					w := fair(1, Measure{Algorithm: Log, Window: window}, 2*most*window, 50, nil)
					ms, due := int64(0), 0.0
					w.every(func() int64 { return 999 }, func() {
						for due += load(ms); due >= 1 && !w.proxies[0].stopped; due-- {
							w.after(w.rng.Int64N(1000), func() { w.proxies[0].request(0, 1) })
						}
						ms++
					})
					if busy {
						w.every(func() int64 { return w.rng.Int64N(200_000) }, func() { w.proxies[0].stop(w.rng.Int64N(30_000), false) })
					}
					runFor(t, w, 1000) // until the key has an advance
					before := w.seen
					const seconds = 5
					runFor(t, w, 1000*seconds)
					calls := w.seen.calls - before.calls
					t.Logf("%d requests, %d drawn, %d calls", w.seen.requests-before.requests, w.seen.drawn-before.drawn, calls)
					require.LessOrEqual(t, calls, int64(20*seconds))
				})
			}
		}
	}
}

// With more demand than the limit admits, all of the limit is admitted; with demand that crosses it up and down,
// nothing is denied while there is room, which the world judges.
func TestAllOfTheLimitIsAdmitted(t *testing.T) {
	for _, kind := range []Measure{{Algorithm: Log, Window: 1000}, {Algorithm: Counter, Parameter: 10, Window: 1000}, {Algorithm: Fixed, Window: 1000}, {Algorithm: Bucket, Parameter: 2000, Window: 1000}} {
		const limit, ms = 2000, 20_000
		w := fair(3, kind, limit, 100, always(1.2))
		runFor(t, w, ms)
		windows := float64(ms)/1000 + 1
		if kind.Algorithm == Counter {
			windows = float64(ms)/1100 + 1
		}
		t.Logf("%+v: %d admitted of %.0f, %d in memory, %d recalls", kind, w.seen.admitted, windows*limit, w.seen.drawn, w.seen.recalls)
		require.GreaterOrEqual(t, float64(w.seen.admitted), 0.98*(windows-1)*limit)

		swing := func(ms int64) float64 { return 0.9 + 0.7*math.Sin(float64(ms)/1500) }
		w = fair(3, kind, limit, 100, swing)
		runFor(t, w, ms)
		t.Logf("  crossing: %d requests, %d admitted, %d in memory, %d denied, %d recalls", w.seen.requests, w.seen.admitted, w.seen.drawn, w.seen.denied, w.seen.recalls)
		require.NotZero(t, w.seen.denied)
		require.NotZero(t, w.seen.drawn)
	}
}

// Proxies that take turns do not fill the home's record: it has at most 64 advances, and those of proxies that went
// quiet end.
func TestProxiesThatTakeTurns(t *testing.T) {
	const proxies, limit = 200, 1_000_000
	w := fair(proxies, Measure{Algorithm: Log, Window: 10_000}, limit, 100, always(0.3))
	turn, most := 0, 0
	for range 300 { // each proxy in turn gets requests for 20 ms
		turn++
		w.run(w.steps + 1)
		p := w.proxies[turn%proxies]
		for range 40 {
			p.request(0, 1)
		}
		runFor(t, w, 2)
		most = max(most, len(w.home.advanced))
	}
	t.Logf("%d proxies: at most %d advances at a time, %d calls for %d requests, %d units lapsed", proxies, most, w.seen.calls, w.seen.requests, w.seen.lapsed)
	require.LessOrEqual(t, most, 64)
	require.Zero(t, w.seen.lapsed)
}
