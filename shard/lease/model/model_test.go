package model

import (
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// sequential returns a world whose demands are made one by one, almost without latency.
func sequential(shards int) (*world, *proxy) {
	w := newWorld(rand.New(rand.NewPCG(3, 4)), shards, lease.Rules{Lease: 1000, Grace: 20}, sound())
	w.latency, w.timeout = func() int64 { return 1 }, 1e6
	return w, newProxy(w, false)
}

// one makes a demand of n requests, waits for its end and returns how many were admitted.
func (p *proxy) one(t *testing.T, pairs []lease.Pair, cost, n int64, shard int) int64 {
	t.Helper()
	before := p.admitted
	p.demand(lease.Demand{Pairs: pairs, Strict: true, Cost: cost, N: n}, 0, shard)
	p.w.settle(t)
	return p.admitted - before
}

// settle runs all pending events except the timeouts of calls.
func (w *world) settle(t *testing.T) {
	t.Helper()
	for until := w.now + 1000; len(w.queue) > 0 && w.queue[0].at < until; {
		w.run(w.steps + 1)
	}
	require.Empty(t, w.broken)
}

func slide(limit, window int64) []lease.Pair {
	return []lease.Pair{{StateName: lease.StateName{Window: window}, Limit: limit}}
}

// Exactly the limit is admitted, whether or not the number of shards divides it.
func TestAdmitsExactlyTheLimitOneByOne(t *testing.T) {
	for _, shards := range []int{1, 2, 3, 4, 7} {
		for _, limit := range []int64{1, 2, 3, 5, 10, 97, 1000} {
			w, p := sequential(shards)
			admitted := int64(0)
			for i := range limit + 20 {
				admitted += p.one(t, slide(limit, 100_000), 1, 1, int(i)%shards)
			}
			require.Equal(t, limit, admitted, "%d shards", shards)
			w.now += 200_000_000
			require.Equal(t, limit, p.one(t, slide(limit, 100_000), 1, limit+5, shards-1), "a window later, all at once")
		}
	}
}

// A cost of nine tenths of the limit fits once, whatever the shards hold.
func TestLargeCostFits(t *testing.T) {
	for _, shards := range []int{2, 4, 7} {
		_, p := sequential(shards)
		pairs := slide(100, 100_000)
		for i := range 10 {
			require.Equal(t, int64(1), p.one(t, pairs, 1, 1, i%shards))
		}
		require.Equal(t, int64(1), p.one(t, pairs, 90, 1, 1))
		require.Zero(t, p.one(t, pairs, 1, 1, 1))
	}
}

// A raised or lowered limit takes effect in the first call that brings it. Units lent under
// the old limit admit nothing for the new one.
func TestChangedLimitTakesEffectAtOnce(t *testing.T) {
	for _, shards := range []int{1, 2, 4} {
		_, p := sequential(shards)
		low, high := slide(10, 100_000), slide(50, 100_000)
		for i := range 6 {
			require.Equal(t, int64(1), p.one(t, low, 1, 1, i%shards))
		}
		require.Equal(t, int64(20), p.one(t, high, 1, 20, 1%shards)) // 26 are in use now.
		require.Zero(t, p.one(t, low, 1, 1, 1%shards))
		require.Equal(t, int64(24), p.one(t, high, 1, 30, shards-1))
		require.Equal(t, int64(1), p.one(t, slide(51, 100_000), 1, 3, 0))
	}
}

// With several windows the tighter one decides, and neither is charged if one denies.
func TestSeveralWindowsDecideTogether(t *testing.T) {
	w, p := sequential(4)
	pairs := []lease.Pair{{StateName: lease.StateName{Window: 1000}, Limit: 8}, {StateName: lease.StateName{Window: 100_000}, Limit: 20}}
	admitted := int64(0)
	for i := range 60 {
		if i%20 == 0 {
			w.now += 2_000_000
		}
		admitted += p.one(t, pairs, 1, 1, i%4)
	}
	require.Equal(t, int64(8+8+4), admitted)
}

// Units that an unreachable shard holds count as used until its lease and a window have
// passed. The other shards continue to admit.
func TestUnreachableShardCountsUntilItsUnitsExpire(t *testing.T) {
	w, p := sequential(4)
	pairs := slide(100, 5000)
	for i := range 8 {
		require.Equal(t, int64(1), p.one(t, pairs, 1, 1, i%4))
	}
	held := w.nodes[2].shard.Held[0]
	require.Greater(t, held, int64(10))
	w.nodes[2].up = false
	admitted := int64(8)
	for i := range 200 {
		admitted += p.one(t, pairs, 1, 1, i%4)
	}
	used := w.nodes[2].used(pairs[0].StateName, true)
	require.Equal(t, 100-held+used, admitted)
	w.now += 6_001_000
	require.Equal(t, int64(100), p.one(t, pairs, 1, 200, 0))
}

func TestResetForgetsEverywhere(t *testing.T) {
	w, p := sequential(4)
	pairs := slide(100, 100_000)
	for i := range 12 {
		p.one(t, pairs, 5, 1, i%4)
	}
	p.reset()
	w.settle(t)
	require.Equal(t, int64(100), p.one(t, pairs, 1, 200, 0))
	require.Zero(t, w.nodes[1].used(pairs[0].StateName, true))
}

// The home of a key that is no longer split makes no loans, and those it has made end.
func TestNothingIsLentAfterTheSplitEnds(t *testing.T) {
	w, p := sequential(4)
	pairs := slide(100, 1000)
	for i := range 12 {
		p.one(t, pairs, 1, 1, i%4)
	}
	require.NotEmpty(t, w.nodes[0].home.Lent)
	w.nodes[0].home.Shards = 1
	for i := range 40 {
		w.now += 100_000
		p.one(t, pairs, 1, 1, i%4)
	}
	require.Empty(t, w.nodes[0].home.Lent)
}
