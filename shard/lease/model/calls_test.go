package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// faultless returns a world without faults. Demands of cost 1 arrive at random times, at a
// rate of load times the limit, and go to the shards in turn.
func faultless(shards, proxies int, limit, window int64, load float64, remember bool) (*world, []*proxy) {
	rng := rand.New(rand.NewPCG(1, 2))
	w := newWorld(rng, shards, lease.Rules{Lease: 1000, Grace: 20}, sound())
	w.timeout = 1e6
	w.latency = func() int64 { return 50 + rng.Int64N(200) }
	d := lease.Demand{Pairs: []lease.Pair{{StateName: lease.StateName{Window: window}, Limit: limit}}, Strict: true, Cost: 1, N: 1}
	pause := float64(window) * 1000 / float64(limit) / load * float64(proxies)
	var all []*proxy
	for range proxies {
		p, turn := newProxy(w, remember), 0
		all = append(all, p)
		w.every(func() int64 { return int64(-pause * math.Log(1-rng.Float64())) }, func() {
			turn++
			p.demand(d, 0, turn%shards)
		})
	}
	return w, all
}

// runFor runs the world for a time and returns how many requests were made, how many of
// them were admitted, and how many calls reached the nodes.
func runFor(t *testing.T, w *world, proxies []*proxy, us int64) (requests, admitted, calls int64) {
	for until := w.now + us; w.now < until; {
		w.run(w.steps + 100)
		require.Empty(t, w.broken)
	}
	for _, p := range proxies {
		requests, admitted = requests+p.requests, admitted+p.admitted
	}
	for _, n := range w.nodes {
		calls += int64(n.calls)
	}
	return requests, admitted, calls
}

// While there is room a request takes one call, and the calls spread over the nodes. At the
// limit and above it takes a few more. All of the limit is used, as on a key that is not
// split.
func TestCallsPerRequestStayFew(t *testing.T) {
	const shards, proxies, window, us = 4, 3, 1000, 6e6
	for _, c := range []struct {
		limit    int64
		load     float64 // Requests per second, divided by the limit.
		remember bool
		most     float64 // Most calls per request.
		share    float64 // Least share of what an unsplit key admits.
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
		w, ps := faultless(shards, proxies, c.limit, window, c.load, c.remember)
		requests, admitted, calls := runFor(t, w, ps, us)
		one, ones := faultless(1, proxies, c.limit, window, c.load, c.remember)
		onlyRequests, only, _ := runFor(t, one, ones, us)
		share := float64(admitted) / float64(only)
		if c.load <= 1 {
			share = float64(admitted) / float64(requests) / (float64(only) / float64(onlyRequests))
		}
		t.Logf("limit %d/s, demand %.1f times the limit, denials remembered %v: %d requests, %.2f calls per request, %.1f %% of what an unsplit key admits",
			c.limit, c.load, c.remember, requests, float64(calls)/float64(requests), 100*share)
		require.LessOrEqual(t, float64(calls)/float64(requests), c.most)
		require.GreaterOrEqual(t, share, c.share)
		if c.load == 0.5 && c.limit == 1000 {
			for i, n := range w.nodes {
				require.InDelta(t, 0.25, float64(n.calls)/float64(calls), 0.05, "node %d", i)
			}
		}
	}
}
