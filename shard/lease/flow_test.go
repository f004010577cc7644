package lease

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func testDemand(n int64) Demand {
	return Demand{Pairs: []Pair{{StateName{Window: 1000}, 100}}, Cost: 1, N: n}
}

func TestFlowEndsAtTheShardThatAdmitsAll(t *testing.T) {
	f := NewFlow(testDemand(5), 2)
	require.Equal(t, AskShard, f.Step)
	f.FromShard(5, Refusal{})
	require.Equal(t, Finished, f.Step)
	require.EqualValues(t, 5, f.Granted)
}

func TestFlowTakesTheRestHomeWithTheRefusal(t *testing.T) {
	f := NewFlow(testDemand(5), 2)
	f.FromShard(3, Refusal{Clock: 7, Seq: 9})
	require.Equal(t, AskHome, f.Step)
	require.Equal(t, &Refusal{Shard: 2, Clock: 7, Seq: 9}, f.HomeRequest().Refusal)
	require.EqualValues(t, 2, f.HomeRequest().Demand.N)
	f.FromHome(HomeReply{Granted: 2, Recalls: []Recall{{Shard: 1}}})
	require.Equal(t, Finished, f.Step, "everything was granted, so recalls are not needed")
	require.EqualValues(t, 5, f.Granted)
}

func TestFlowBeginsAtTheHomeWithoutAShard(t *testing.T) {
	require.Equal(t, AskHome, NewFlow(testDemand(1), 0).Step)
}

// After each round of recalls, the request to the home has the newest report of each shard.
func TestFlowCollectsReports(t *testing.T) {
	f := NewFlow(testDemand(4), 0)
	f.FromHome(HomeReply{Granted: 1, Recalls: []Recall{{Shard: 1}, {Shard: 2}}})
	require.Equal(t, RecallShards, f.Step)
	require.Len(t, f.Recalls, 2)
	f.FromRecalls([]Report{{Shard: 1, Seq: 10}}, []int{2})
	require.Equal(t, AskHome, f.Step)
	f.FromHome(HomeReply{Recalls: []Recall{{Shard: 1}, {Shard: 3}}})
	f.FromRecalls([]Report{{Shard: 1, Seq: 11}, {Shard: 3, Seq: 5}}, nil)
	require.Equal(t, []Report{{Shard: 1, Seq: 11}, {Shard: 3, Seq: 5}}, f.HomeRequest().Reports)
	require.Equal(t, []int{2}, f.HomeRequest().Unreachable)
	f.FromHome(HomeReply{})
	require.Equal(t, Finished, f.Step)
	require.EqualValues(t, 1, f.Granted)
	require.EqualValues(t, 3, f.Demand().N, "the rest is denied")
}
