package model

import (
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// A strict counter and a weighted one of the same window are one state. The weight of a shard's
// units does not say how many they are when they are counted in full.
func TestHomeCountsLeasesOfTheOtherKind(t *testing.T) {
	rules := lease.Rules{Lease: 1000, Grace: 20}
	state := lease.StateName{Window: 1000, Buckets: 1}
	lentByWeight := func() *Home {
		return &Home{Shards: 2, Pairs: []lease.Pair{{StateName: state, Limit: 100}}, Seq: 5_000_000,
			Lent: []Lent{{Shard: 1, Seq: 5_000_000, Incarnation: 7, Out: []lease.Units{{StateName: state, N: 30}}}}}
	}
	demand := func(strict bool, n int64) *lease.Demand {
		return &lease.Demand{Pairs: []lease.Pair{{StateName: state, Limit: 100}}, Strict: strict, Cost: 1, N: n}
	}
	own := []int64{10}

	h := lentByWeight() // A demand of the same kind has the rest of the limit.
	require.Equal(t, int64(60), h.Decide(rules, 5100, &lease.HomeRequest{Demand: demand(false, 60)}, own).Granted)

	h = lentByWeight() // A demand of the other kind waits until the lease has ended.
	reply := h.Decide(rules, 5100, &lease.HomeRequest{Demand: demand(true, 1)}, own)
	require.Zero(t, reply.Granted)
	require.Equal(t, []lease.Recall{{Shard: 1, Seq: 5_000_000, EndLease: true, Strict: true, States: []lease.StateName{state}}}, reply.Recalls)
	report := lease.Report{Shard: 1, Seq: 5_000_000, Incarnation: 7, LeaseEnded: true, Strict: true, Used: []lease.Units{{StateName: state, N: 35}}}
	reply = h.Decide(rules, 5101, &lease.HomeRequest{Demand: demand(true, 56), Reports: []lease.Report{report}}, own)
	require.Equal(t, lease.HomeReply{Granted: 55}, reply, "a strict count may be more than the units held")

	h = lentByWeight() // A report on another state does not say how this one is counted.
	report.Used = []lease.Units{{StateName: lease.StateName{Window: 9, Buckets: 1}, N: 0}}
	h.Decide(rules, 5101, &lease.HomeRequest{Demand: demand(true, 1), Reports: []lease.Report{report}}, own)
	require.Equal(t, []Lent{{Shard: 1, Seq: 5_000_000, Incarnation: 7, LeaseEnded: true, Out: []lease.Units{{StateName: state, N: 30}}}}, h.Lent)

	h = lentByWeight() // A refusal that leaves out a state does not do for a report.
	h.Lent[0].Out = append(h.Lent[0].Out, lease.Units{StateName: lease.StateName{Window: 9}, N: 1})
	refusal := &lease.Refusal{Shard: 1, Clock: 6005, Incarnation: 7, Seq: 5_000_000, LeaseEnded: true, Used: []lease.Units{{StateName: state, N: 30}}}
	require.Len(t, h.Decide(rules, 6005, &lease.HomeRequest{Demand: demand(true, 91), Refusal: refusal}, own).Recalls, 1)

	h = lentByWeight() // Nor is it known when the lease has ended, even if the units weigh nothing any more.
	weighted := lease.Report{Shard: 1, Seq: 5_000_000, Incarnation: 7, Used: []lease.Units{{StateName: state, N: 0}}}
	h.Decide(rules, 5102, &lease.HomeRequest{Demand: demand(false, 101), Reports: []lease.Report{weighted}}, own)
	require.Len(t, h.Decide(rules, 6500, &lease.HomeRequest{Demand: demand(true, 1)}, own).Recalls, 1)
	require.Equal(t, int64(90), h.Decide(rules, 6500, &lease.HomeRequest{Demand: demand(false, 91)}, own).Granted)
	require.Equal(t, int64(90), h.Decide(rules, 8001, &lease.HomeRequest{Demand: demand(true, 91)}, own).Granted, "a window and a sub-window later")
}

// After RL.RESET a home knows no number of a loan any more, and its clock may still be in the ms of the last one. A
// loan is newer than what the shard knows nevertheless.
func TestHomeLendsAgainInTheMsOfAReset(t *testing.T) {
	rules := lease.Rules{Lease: 1000, Grace: 20}
	pairs := []lease.Pair{{StateName: lease.StateName{Window: 1000}, Limit: 100}}
	shard := &Shard{Incarnation: 7}
	h := &Home{Shards: 2}
	lend := func() *lease.Loan {
		request := &lease.HomeRequest{Demand: &lease.Demand{Pairs: pairs, Cost: 1, N: 1},
			Refusal: &lease.Refusal{Shard: 1, Clock: 5000, Incarnation: shard.Incarnation, Seq: shard.Seq, LeaseEnded: true, Used: []lease.Units{{StateName: pairs[0].StateName}}}}
		return h.Decide(rules, 5000, request, []int64{0}).Loan
	}
	for range 3 {
		loan := lend()
		require.NotNil(t, loan)
		require.True(t, shard.Take(rules, 5000, loan))
		recall := h.Recalls(rules, 5000)[0]
		h.Reset([]lease.Report{shard.Forget(rules, 5000, &recall)})
		require.Empty(t, h.Lent)
	}
}
