package lua_test

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// A shard reports the units in use correctly if the recall makes its lease table so much shorter that the record, which
// has a log whose ring wraps around, is written anew.
func TestShardReportsALogThatTheRecallRewrites(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	r := request(limit.Slide, limit.Window{Limit: 10_000, Length: 500})
	require.Zero(t, w.decide(base, r, 1, 1).Granted)
	loan := lease.Loan{Shard: 1, Seq: (base + 1) * 1000, Incarnation: base, Clock: base + 1,
		Pairs: wire.Pairs(&r.Spec), Held: []int64{5000}, Headroom: []int64{5000}}
	require.True(t, w.take(base+1, r, &loan))
	clock := base + 1
	for range 90 {
		clock += 8
		require.EqualValues(t, 1, w.decide(clock, r, 1, 1).Granted)
	}
	clock += 250 // what was admitted more than 250 ms before the last admission has left the window
	was := len(w.stored(storedKey(r, 1)).text)
	report := w.recall(clock, r, &wire.ShardOrder{Recall: lease.Recall{Shard: 1, Seq: loan.Seq, EndLease: true, States: []lease.StateName{loan.Pairs[0].StateName}}})
	require.NotEqual(t, was, len(w.stored(storedKey(r, 1)).text))
	require.EqualValues(t, 1+250/8, report.Used[0].N)
}

// A shard takes a loan that the home made after a reset, even if the loan answers a refusal from before it, and its lease
// record then lives for as long as the home counts the loan. A loan from before the reset is void.
func TestShardTakesALoanAfterAReset(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	const ms, before = 60_000, (base + 1) * 1000
	r := request(limit.Slide, limit.Window{Limit: 100, Length: ms})
	require.Zero(t, w.decide(base, r, 1, 1).Granted)
	take := func(seq int64) bool {
		return w.take(base+3, r, &lease.Loan{Shard: 1, Seq: seq, Incarnation: base, Clock: base,
			Pairs: wire.Pairs(&r.Spec), Held: []int64{50}, Headroom: []int64{50}})
	}
	w.recall(base+2, r, &wire.ShardOrder{Forget: true, Recall: lease.Recall{Shard: 1, Seq: before}})
	require.False(t, take(before))
	require.True(t, take(before+1))
	require.EqualValues(t, 1, w.decide(base+4, r, 1, 1).Granted)
	require.GreaterOrEqual(t, w.stored(storedKey(r, 1)).expires.Milliseconds(), base+1000+ms)
}

// take gives a loan to its shard of the request's key, and reports whether the shard has taken it.
func (w *twins) take(clock int64, r *engine.Request, loan *lease.Loan) bool {
	w.t.Helper()
	var reply wire.LoanTaken
	require.NoError(w.t, wire.Unpack(w.run(lua.Take, storedKey(r, loan.Shard), clock, texts(wire.Args(loan))...), &reply))
	return reply.Taken
}

// recall gives an order to a shard of the request's key, and returns its report.
func (w *twins) recall(clock int64, r *engine.Request, order *wire.ShardOrder) *wire.ShardReport {
	w.t.Helper()
	reply := w.run(lua.Recall, storedKey(r, order.Recall.Shard), clock, texts(wire.Args(order))...)
	report, err := wire.DecodeShardReport(reply, &order.Recall)
	require.NoError(w.t, err, "%q", reply)
	return report
}
