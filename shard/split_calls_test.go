package shard

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// calm makes a world without faults: asks of cost 1 come at random times, at a rate
// that is demand times the limit, and go to parts in turn.
func calm(parts, proxies int, limit, window int64, demand float64, remember bool) (*world, []*proxy) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(rng, parts, Rules{Lease: 1000, Grace: 20}, sound())
	w.timeout = 1e6
	w.latency = func() int64 { return 50 + rng.Int64N(200) }
	a := Ask{Pairs: []Pair{{State{Window: window}, limit}}, Strict: true, Cost: 1, N: 1}
	pause := float64(window) * 1000 / float64(limit) / demand * float64(proxies)
	var all []*proxy
	for range proxies {
		p, turn := newProxy(w, remember), 0
		all = append(all, p)
		w.every(func() int64 { return int64(-pause * math.Log(1-rng.Float64())) }, func() {
			turn++
			p.ask(a, 0, turn%parts)
		})
	}
	return w, all
}

// runFor runs for a time and returns requests, how many were admitted, and calls.
func runFor(t *testing.T, w *world, proxies []*proxy, us int64) (asked, admitted, calls int64) {
	for until := w.now + us; w.now < until; {
		w.run(w.steps + 100)
		require.Empty(t, w.broken)
	}
	for _, p := range proxies {
		asked, admitted = asked+p.asked, admitted+p.admitted
	}
	for _, n := range w.nodes {
		calls += int64(n.calls)
	}
	return asked, admitted, calls
}

// With room a request is one call, and the calls spread over the nodes. At the limit
// and above, it takes a few, and all of the limit is used: as much as by a key that
// is not split.
func TestSplitCalls(t *testing.T) {
	const parts, proxies, window, us = 4, 3, 1000, 6e6
	for _, c := range []struct {
		limit    int64
		demand   float64
		remember bool
		most     float64 // calls a request
		share    float64 // of what the unsplit key admits
	}{
		{1000, 0.5, true, 1.1, 0.999},
		{1000, 0.9, true, 1.2, 0.99},
		{1000, 1, true, 2, 0.97},
		{1000, 3, true, 1.5, 0.99},
		{1000, 3, false, 5, 0.99},
		{100, 0.5, true, 1.3, 0.99},
		{100, 0.9, true, 1.8, 0.94},
		{100, 1, true, 2.2, 0.92},
		{100, 3, true, 2, 0.97},
	} {
		w, ps := calm(parts, proxies, c.limit, window, c.demand, c.remember)
		asked, admitted, calls := runFor(t, w, ps, us)
		one, ones := calm(1, proxies, c.limit, window, c.demand, c.remember)
		onlyAsked, only, _ := runFor(t, one, ones, us)
		share := float64(admitted) / float64(only)
		if c.demand <= 1 {
			share = float64(admitted) / float64(asked) / (float64(only) / float64(onlyAsked))
		}
		t.Logf("limit %d/s, demand %.1f, denials remembered %v: %d requests, %.2f calls a request, %.1f %% of what an unsplit key admits",
			c.limit, c.demand, c.remember, asked, float64(calls)/float64(asked), 100*share)
		require.LessOrEqual(t, float64(calls)/float64(asked), c.most)
		require.GreaterOrEqual(t, share, c.share)
		if c.demand == 0.5 && c.limit == 1000 {
			for i, n := range w.nodes {
				require.InDelta(t, 0.25, float64(n.calls)/float64(calls), 0.05, "node %d", i)
			}
		}
	}
}
