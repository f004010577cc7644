package split

import (
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/stretchr/testify/require"
)

// Requests with the same ID go to the same shard, and different IDs spread over all shards.
func TestIDChoosesTheShard(t *testing.T) {
	s, _ := open(t, 4, Config{})
	r := ask("k", 1000, 4)
	seen := map[int]int{}
	for i := range 400 {
		r.ID = fmt.Appendf(nil, "id%d", i%100)
		at := s.choose(&r, 4, -1)
		require.Equal(t, at, s.choose(&r, 4, 2), "the shard of equal requests before it does not matter")
		seen[at]++
	}
	require.Len(t, seen, 4)
	for at, n := range seen {
		require.Greater(t, n, 40, "shard %d", at)
	}
}

// Requests without IDs go to the shards in turn. At first a turn lasts for a ms or maxTurn
// requests, and later for turnFor ms.
func TestShardsTakeTurns(t *testing.T) {
	s, n := open(t, 4, Config{})
	r := ask("k", 1_000_000, 4)
	choose := func() int { return s.choose(&r, 4, -1) }
	first := choose()
	for range maxTurn {
		require.Equal(t, first, choose())
	}
	require.Equal(t, (first+1)%4, choose(), "its turn is over")
	for i := range 2*4 - 1 { // while some shards may hold nothing yet, a turn lasts for a ms
		n.now.Add(1)
		require.Equal(t, (first+2+i)%4, choose())
	}
	at := choose()
	n.now.Add(turnFor - 1)
	require.Equal(t, at, choose(), "then a turn lasts longer")
	n.now.Add(1)
	require.Equal(t, (at+1)%4, choose())
	n.now.Add(leaseMs + 1)
	at = choose()
	n.now.Add(1)
	require.Equal(t, (at+1)%4, choose(), "leases have ended: shards hold nothing")
	for range maxTurn {
		require.Equal(t, 3, s.choose(&r, 4, 3), "equal requests of a pipeline go to one shard")
	}
	require.Equal(t, (at+2)%4, choose(), "they were the rest of the turn")
}

// A key may get fewer shards, or more, while it is in use.
func TestShardsOfAChangedNumberTakeTurns(t *testing.T) {
	s, n := open(t, 5, Config{})
	r := ask("k", 1_000_000, 5)
	choose := func() int {
		n.now.Add(turnFor)
		return s.choose(&r, 5, -1)
	}
	for _, shards := range []int{5, 2, 4} {
		s.learn(r.Key, shards)
		seen := map[int]bool{s.choose(&r, 5, -1): true} // in the turn of before
		for range 2 * shards {
			seen[choose()] = true
		}
		require.Len(t, seen, shards)
		for s.spreads["k"].next < shards-1 { // it is the last one's turn when the number changes
			choose()
		}
	}
}

// A shard that had no room and got no loan is skipped for a while. If all shards are skipped,
// the home is asked.
func TestShardsWithoutRoomAreSkipped(t *testing.T) {
	s, n := open(t, 3, Config{})
	r := ask("k", 1000, 3)
	s.choose(&r, 3, -1)
	s.lent(r.Key, 1, false)
	seen := map[int]bool{}
	for range 3 * (maxTurn + 1) {
		seen[s.choose(&r, 3, -1)] = true
	}
	require.Equal(t, map[int]bool{0: true, 2: true}, seen)
	s.lent(r.Key, 0, false)
	s.lent(r.Key, 2, false)
	require.Equal(t, 0, s.choose(&r, 3, -1))
	s.lent(r.Key, 2, true)
	require.Equal(t, 2, s.choose(&r, 3, -1), "it was lent more")
	n.now.Add(dryFor)
	clear(seen)
	for range 3 * (maxTurn + 1) {
		seen[s.choose(&r, 3, -1)] = true
	}
	require.Len(t, seen, 3)
	s.lent(r.Key, 77, false)
	s.lent([]byte("unknown"), 0, false)
}

// The home says how many shards a key has. A spread that was only learned from the home is
// forgotten when the home says that the key is not split, but one that was wanted here stays.
func TestTheNumberOfShardsIsLearnedFromTheHome(t *testing.T) {
	s, _ := open(t, 3, Config{})
	require.Equal(t, 1, s.Shards([]byte("k")))
	s.learn([]byte("k"), 0)
	require.Zero(t, s.PossiblySplit.Load())
	s.learn([]byte("k"), 3)
	require.Positive(t, s.PossiblySplit.Load())
	require.Equal(t, 3, s.Shards([]byte("k")))
	s.learn([]byte("k"), 5)
	require.Equal(t, 5, s.Shards([]byte("k")))
	s.learn([]byte("k"), 1)
	require.Equal(t, 1, s.Shards([]byte("k")))
	require.Zero(t, s.PossiblySplit.Load())

	r := ask("k", 1000, 3)
	s.choose(&r, 3, -1)
	s.learn(r.Key, 0)
	require.Equal(t, 3, s.Shards(r.Key), "the split was wanted here")
	s.learn(r.Key, 1<<16-1)
	require.Equal(t, engine.MaxShards, s.Shards(r.Key), "no more than there can be")
}

// A spread that no request needs any more is dropped when there are replies about other keys, also those that are never
// split: while there is one, each request costs more.
func TestSpreadsThatAreNotNeededAreDropped(t *testing.T) {
	for _, kind := range []limit.Kind{limit.Slide, limit.GCRA, limit.Concurrency} {
		dropSpreads(t, kind)
	}
}

func dropSpreads(t *testing.T, kind limit.Kind) {
	s, n := open(t, 3, Config{})
	wanted, byLoad, other := ask("wanted", 1000, 3), ask("by load", 1000, 0), ask("other", 1000, 0)
	other.Kind = kind
	s.Configure(Settings{Threshold: 100})
	s.choose(&wanted, 3, -1)
	s.Observe(&byLoad, 0, &wire.Answer{Rate: 100})
	s.learn([]byte("learned"), 3)
	require.EqualValues(t, 3, s.PossiblySplit.Load())
	n.now.Add(keepFor)
	s.choose(&wanted, 3, -1)
	s.learn([]byte("learned"), 3)
	s.Observe(&other, 0, new(wire.Answer))
	require.EqualValues(t, 3, s.PossiblySplit.Load(), "not for long enough")
	n.now.Add(sweepEvery)
	s.Observe(&other, 0, new(wire.Answer))
	require.Equal(t, []int{3, 1, 3}, []int{s.Shards(wanted.Key), s.Shards(byLoad.Key), s.Shards([]byte("learned"))})
	require.Zero(t, s.byLoad.Load())
	n.now.Add(keepFor + 1)
	s.Observe(&other, 0, new(wire.Answer))
	require.Zero(t, s.PossiblySplit.Load())
	require.Zero(t, s.memory)
}

// The number and the memory of spreads are bounded: a new spread replaces another one.
func TestSpreadsAreBounded(t *testing.T) {
	s, _ := open(t, 3, Config{})
	for i := range maxSpreads + 100 {
		s.learn(fmt.Appendf(nil, "k%d", i), 3)
	}
	require.EqualValues(t, maxSpreads, s.known.Load())
	require.Len(t, s.spreads, maxSpreads)
	require.Equal(t, 3, s.Shards(fmt.Appendf(nil, "k%d", maxSpreads+99)))
	require.Less(t, s.memory, maxSpreadMemory)

	for i := range maxSpreads {
		key := fmt.Appendf(nil, "%04000d", i)
		s.learn(key, 2)
		s.learn(key, engine.MaxShards)
	}
	require.LessOrEqual(t, s.memory, maxSpreadMemory+60_000)
	for key, l := range s.spreads {
		s.drop(key, l)
	}
	require.Zero(t, s.memory)
}
