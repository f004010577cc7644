package split

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// Refusals of one shard may arrive out of order. The merged group has the newest.
func TestGroupsThatOneShardRefusedAreMerged(t *testing.T) {
	made := func(f *wire.Refusal) *group { return newGroup(left(f, ask("k", 10, 4)), f) }
	groups := combine([]*group{
		made(refusal(1, 100)), made(nil), made(refusal(1, 102)), made(refusal(2, 90)), made(refusal(1, 101)), made(nil),
	})
	require.Len(t, groups, 3)
	require.Len(t, groups[0].requests, 3)
	require.Equal(t, int64(102), groups[0].refusal.Clock)
	require.EqualValues(t, 3, groups[0].flow.Demand().N)
	require.Len(t, groups[1].requests, 2)
	require.Nil(t, groups[1].refusal)
	require.Equal(t, int64(90), groups[2].refusal.Clock)
}

func TestGroupsOfDifferentCostsAreNotMerged(t *testing.T) {
	costly := ask("k", 10, 4)
	costly.Cost = 3
	groups := combine([]*group{
		newGroup(left(nil, ask("k", 10, 4)), nil), newGroup(left(nil, costly, costly), nil), newGroup(left(nil, ask("k", 10, 4)), nil),
	})
	require.Len(t, groups, 2)
	require.Len(t, groups[0].requests, 2)
	require.Len(t, groups[1].requests, 2)
	require.EqualValues(t, 3, groups[1].request().Cost)
}

// reported returns the report of a shard that holds 9 units of slideState and uses some of them.
func reported(shard int, used, first, empty int64) *wire.ShardReport {
	return &wire.ShardReport{
		Report: lease.Report{Shard: shard, Used: []lease.Units{{StateName: slideState, N: used}}},
		First:  []int64{first}, Empty: []int64{empty}, Held: []int64{9},
	}
}

// Shards may report at different times. The time in each report counts from when the report
// was requested.
func TestRoomWithReportsOfDifferentTimes(t *testing.T) {
	g := newGroup(left(nil, ask("k", 10, 4)), nil)
	g.reports = map[int]timedReport{1: {reported(1, 4, 60, 0), 100}, 2: {reported(2, 4, 100, 0), 150}}
	full := &wire.HomeReply{
		Tallies: []wire.Tally{{Used: 10, Own: 2, First: 500, Lent: 8}},
		Lent:    []wire.Loaned{{Shard: 1, Out: []int64{4}}, {Shard: 2, Out: []int64{4}}},
	}
	require.Equal(t, int64(160-155-1), g.room(0, full, 155))
	full.Tallies[0].Used++
	require.Equal(t, int64(1), g.room(0, full, 155), "a lease for a lower limit is in the way")
	full.Tallies[0].Used--
	r := g.request()
	r.Windows[0].Limit = 6 // it was lowered: five units must become free
	require.Equal(t, int64(250-155-1), g.room(0, full, 155))
	r.Windows[0].Limit = 11
	require.Zero(t, g.room(0, full, 155), "there is room")

	// One shard gave the time with its refusal, and the other has lost its memory.
	g.refusal, g.requests[0].Sent = refusal(1, 0), 152
	g.refusal.First[0] = 80
	delete(g.reports, 1)
	g.reports[2].Incarnation = 7
	r.Windows[0].Limit = 6
	require.Equal(t, int64(152+80-155-1), g.room(0, full, 155))
	full.Tallies[0].Used, full.Lent[0].Out[0] = 13, 3
	require.Equal(t, int64(1), g.room(0, full, 155), "the other shard, of which nothing is known, may have four units to give")
	full.Tallies[0].Used, full.Lent[0].Out[0] = 14, 4
	g.refusal = nil
	require.Equal(t, int64(1), g.room(0, full, 155), "nothing is known of the shards")
}

// The window is empty once the home and all shards have nothing in use: a shard that holds more than it
// has used, or has used nothing, does not delay that.
func TestTheLastPartToBeEmptyDeterminesTheReset(t *testing.T) {
	g := newGroup(left(nil, ask("k", 10, 4)), nil)
	home := &wire.HomeReply{
		Tallies: []wire.Tally{{Used: 5, Own: 2, Empty: 3000}},
		Lent:    []wire.Loaned{{Shard: 1, Out: []int64{3}, Empty: []int64{9000}}, {Shard: 2, Out: []int64{0}, Empty: []int64{-clock}}},
	}
	g.reports = map[int]timedReport{1: {reported(1, 3, 1, 5000), 0}, 2: {reported(2, 0, 1, 6000), 0}}
	require.EqualValues(t, 5000, g.empty(0, home))
	g.reports[1] = timedReport{reported(1, 3, 1, 2000), 0}
	require.EqualValues(t, 3000, g.empty(0, home), "the home was the last to admit")
	home.Tallies[0].Own = 0
	require.EqualValues(t, 2000, g.empty(0, home))
	delete(g.reports, 1)
	require.EqualValues(t, 9000, g.empty(0, home), "a shard that has not reported may have admitted until now")
}

func TestAReportHasWhatASecondStateHolds(t *testing.T) {
	other := lease.StateName{Kind: byte(limit.Slide), Window: 1000}
	p := timedReport{ShardReport: &wire.ShardReport{
		Report: lease.Report{Used: []lease.Units{{StateName: slideState, N: 1}, {StateName: other, N: 2}}},
		First:  []int64{10, 20}, Empty: []int64{30, 40},
	}}
	require.Equal(t, holding{2, 20, 40}, p.of(other))
	other.Window++
	require.Zero(t, p.of(other))
}

func TestSoonest(t *testing.T) {
	for _, row := range []struct {
		held        []user
		units, want int64
	}{
		{nil, 1, 1},
		{[]user{{4, 60}}, 4, 60},
		{[]user{{4, 60}}, 5, 1},
		{[]user{{1, 90}, {1, 30}, {1, 60}}, 1, 30},
		{[]user{{1, 90}, {1, 30}, {1, 60}}, 2, 60},
		{[]user{{1, 90}, {0, 30}, {1, 60}}, 2, 90},
		{[]user{{5, 0}}, 3, 1},
	} {
		require.Equal(t, row.want, soonest(row.held, row.units), "%v", row)
	}
}
