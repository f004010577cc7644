package wire

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

func counter() limit.Spec {
	r := conformance.Request(limit.Counter, "k", 100, 60_000)
	r.Param = 6
	return r.Spec
}

func TestHomeArgs(t *testing.T) {
	s := counter()
	state := State(&s, s.Windows[0])
	require.Equal(t, lease.State{Kind: 2, Window: 60_000, Buckets: 6}, state)
	q := &lease.HomeRequest{
		Demand:      &lease.Demand{N: 3},
		Reports:     []lease.Report{{Shard: 2, Seq: 5, Incarnation: 6, Stale: true, Used: []lease.Units{{State: state, N: 7}}}},
		Unreachable: []int{4},
	}
	refusal := &Refusal{lease.Refusal{Shard: 1, Clock: 8, Incarnation: 9, Seq: 10, LeaseEnded: true, Used: []lease.Units{{State: state, N: 11}}}, []int64{12}}
	name := []int64{1, 2, 5, 6, 5, 60_000}
	require.Equal(t, [][]byte{
		bytesOf(4, 3, 2, 5),
		bytesOf(6, 1, 1, 0, 1, 2, 5, 6, 5, 60_000, 5, 100),
		bytesOf(4, 1, 6, 8, 6, 9, 7, 10, 1, 1, 6, 11, 6, 12),
		append(bytesOf(4, 2, 7, 5, 6, 6, 1, 1, 1, 1), bytesOf(append(name, 6, 7)...)...),
		bytesOf(4, 4),
	}, HomeArgs(&s, 5, q, refusal))
	require.Equal(t, bytesOf(6, 0, 1, 0, 1, kindReset, 5, 0), HomeArgs(&limit.Spec{}, 1, nil, nil)[1], "without windows")
}

// homeReply returns a reply with one shard that was lent to, one recall and a loan.
func homeReply(granted int64) []byte {
	return bytesOf(6, clock, 4, granted, 3, 2, 2, 4, // granted, rate, shards
		6, 50, 6, 20, 6, 900, 6, clock-5, 6, 3, 6, 30, // the tally
		2, 1, 4, 2, 6, 77, 6, 30, // the shard that was lent to
		2, 1, 4, 2, 7, 99, 1, 1, 1, 1, 1, 2, 5, 6, 5, 60_000, // the recall
		7, 100, 6, 12, 6, 40) // the loan
}

func TestDecodeHomeReply(t *testing.T) {
	s := counter()
	refusal := &Refusal{Refusal: lease.Refusal{Shard: 1, Clock: 8, Incarnation: 9}}
	h, err := DecodeHomeReply(string(homeReply(2)), &s, 3, refusal)
	require.NoError(t, err)
	require.EqualValues(t, clock, h.Clock)
	require.Equal(t, []Tally{{Used: 50, Own: 20, First: 900, Last: -5, Newest: 3, Lent: 30}}, h.Tallies)
	require.Equal(t, usageOf(50, 0, 33), h.Tallies[0].Usage(&s, s.Windows[0], clock, 0), "shards admit until now")
	require.Equal(t, []Lent{{Shard: 2, Incarnation: 77, Out: []int64{30}}}, h.Lent)
	require.Equal(t, []lease.Recall{{Shard: 2, Seq: 99, EndLease: true, States: []lease.State{State(&s, s.Windows[0])}}}, h.Recalls)
	require.Equal(t, &lease.Loan{Shard: 1, Seq: 100, Pairs: Pairs(&s), Held: []int64{12}, Headroom: []int64{40}, Clock: 8, Incarnation: 9}, h.Loan)

	_, err = DecodeHomeReply(string(homeReply(4)), &s, 3, refusal)
	require.ErrorIs(t, err, errInconsistent, "more granted than asked for")
	for n := range homeReply(2) {
		_, err = DecodeHomeReply(string(homeReply(2)[:n]), &s, 3, refusal)
		if err == nil { // the loan is left out
			require.Equal(t, len(homeReply(2))-19, n)
		}
	}
}

// A reply with a number that no home can have is refused.
func TestDecodeHomeReplyRefusesWhatCannotBe(t *testing.T) {
	s := counter()
	reply := func(change func(h []int64)) string {
		fields := []int64{clock, 2, 2, 4, 50, 20, 900, clock - 5, 3, 30, 1, 2, 77, 30, 1, 2, 99, 1, 1, 2, 6, 60_000}
		change(fields)
		var pairs []int64
		for i, size := range []int64{6, 4, 3, 2, 6, 6, 6, 6, 6, 6, 2, 4, 6, 6, 2, 4, 7, 1, 1, 1, 5, 5} {
			pairs = append(pairs, size, fields[i])
		}
		return string(bytesOf(pairs...))
	}
	_, err := DecodeHomeReply(reply(func([]int64) {}), &s, 3, nil)
	require.NoError(t, err)
	for name, change := range map[string]func(h []int64){
		"a far clock":           func(h []int64) { h[0], h[7] = maxClock+1, maxClock },
		"a huge use":            func(h []int64) { h[4] = maxUnits + 1 },
		"a huge use of its own": func(h []int64) { h[5] = maxUnits + 1 },
		"a far first unit":      func(h []int64) { h[6] = maxDelay + 1 },
		"a far admission":       func(h []int64) { h[7] = clock + maxDelay + 1 },
		"a huge sub-window":     func(h []int64) { h[8] = maxUnits + 1 },
		"huge loans":            func(h []int64) { h[9] = maxUnits + 1 },
		"a loan to itself":      func(h []int64) { h[11] = 0 },
		"a loan to no shard":    func(h []int64) { h[11] = maxShardNumber + 1 },
		"a huge loan":           func(h []int64) { h[13] = maxUnits + 1 },
		"a recall of itself":    func(h []int64) { h[15] = 0 },
		"a recall of no shard":  func(h []int64) { h[15] = maxShardNumber + 1 },
	} {
		_, err := DecodeHomeReply(reply(change), &s, 3, nil)
		require.ErrorIs(t, err, errInconsistent, name)
	}
}

// usageOf returns a usage of counter() whose newest admission, of newest units in its sub-window, is last ms from the clock.
func usageOf(used, last, newest int64) limit.Usage {
	s, u := counter(), limit.Usage{Used: used}
	s.Date(s.Windows[0], clock, &u, last, newest, 0)
	return u
}

func TestUsageOfAKeyWithoutLoansIsTheHomes(t *testing.T) {
	s, tally := counter(), Tally{Used: 5, Last: -7, Newest: 2}
	require.Equal(t, usageOf(5, -7, 4), tally.Usage(&s, s.Windows[0], clock, 2))
	tally.Lent = 1
	require.Equal(t, usageOf(5, 0, 3), tally.Usage(&s, s.Windows[0], clock, 0))
}

func TestStatesAreReadAsTheyAreWritten(t *testing.T) {
	slide := conformance.Request(limit.Slide, "k", 100, 60_000).Spec
	for _, s := range []limit.Spec{slide, counter()} {
		state := State(&s, s.Windows[0])
		r := reader{s: string(appendState(nil, state))}
		require.Equal(t, state, r.state())
		require.NoError(t, r.end())
	}
	require.Equal(t, bytesOf(1, int64(limit.Slide), 5, 1, 5, 60_000), appendState(nil, State(&slide, slide.Windows[0])), "as in a record's header")
}

func TestLoanAndForgetArgs(t *testing.T) {
	s := counter()
	l := &lease.Loan{Shard: 1, Seq: 100, Pairs: Pairs(&s), Strict: true, Held: []int64{12}, Headroom: []int64{40}, Clock: 8, Incarnation: 9}
	require.Equal(t, bytesOf(7, 100, 6, 9, 6, 8, 1, 1, 1, 2, 5, 6, 5, 60_000, 5, 100, 6, 12, 6, 40), LoanArgs(l)[0])
	reports := []*ShardReport{{Report: lease.Report{Shard: 3, Seq: 4}}}
	require.Equal(t, bytesOf(4, 3, 7, 4), ForgetArgs(reports)[0])
}

func TestRecallAndItsReport(t *testing.T) {
	s := counter()
	to := &lease.Recall{Shard: 2, Seq: 99, EndLease: true, Strict: true, States: []lease.State{State(&s, s.Windows[0])}}
	require.Equal(t, bytesOf(1, 0, 7, 99, 1, 3, 1, 2, 5, 6, 5, 60_000), RecallArgs(Return, to)[0])
	reply := bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock-20, 6, 4)
	p, err := DecodeShardReport(string(reply), to)
	require.NoError(t, err)
	require.Equal(t, &ShardReport{
		Report: lease.Report{Shard: 2, Seq: 99, Incarnation: 77, LeaseEnded: true, Used: []lease.Units{{State: to.States[0], N: 5}}},
		First:  []int64{250}, Held: []int64{30}, Limit: []int64{100}, Rate: []int64{8}, Last: []int64{-20}, Newest: []int64{4},
	}, p)
	for n := range reply {
		_, err := DecodeShardReport(string(reply[:n]), to)
		require.Error(t, err)
	}
	for _, wrong := range [][]byte{
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, maxUnits+1, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock, 6, 0),
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, maxDelay+1, 6, 30, 5, 100, 3, 8, 6, clock, 6, 0),
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, 250, 6, maxUnits+1, 5, 100, 3, 8, 6, clock, 6, 0),
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock+maxDelay+1, 6, 0),
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock, 6, maxUnits+1),
		bytesOf(7, 99, 6, 77, 1, 2, 6, maxDelay+1, 6, clock, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock, 6, 0),
		bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, maxClock+1, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, maxClock, 6, 0),
	} {
		_, err = DecodeShardReport(string(wrong), to)
		require.ErrorIs(t, err, errInconsistent)
	}
}

// Each flag of a recall and of its report is a bit of its own, and the home is told the flags of the report.
func TestFlagsOfARecallAndOfItsReport(t *testing.T) {
	for flags := range int64(8) {
		one, two, four := flags&1 != 0, flags&2 != 0, flags&4 != 0
		if !four {
			recall := &lease.Recall{Shard: 2, Seq: 99, EndLease: one, Strict: two}
			require.Equal(t, bytesOf(1, 0, 7, 99, 1, flags), RecallArgs(Return, recall)[0])
			r := reader{s: string(bytesOf(4, 2, 7, 99, 1, flags, 1, 0))}
			require.Equal(t, *recall, r.recall(), "as the home names it")
		}
		p, err := DecodeShardReport(string(bytesOf(7, 99, 6, 77, 1, flags, 6, 0, 6, clock)), &lease.Recall{Shard: 2, Seq: 99})
		require.NoError(t, err)
		require.Equal(t, lease.Report{Shard: 2, Seq: 99, Incarnation: 77, Stale: one, LeaseEnded: two, Strict: four}, p.Report)
		require.Equal(t, bytesOf(4, 2, 7, 99, 6, 77, 1, flags, 1, 0), appendReport(nil, &p.Report))
	}
}

// Whatever a home or a shard replies, decoding returns an error or valid numbers.
func FuzzDecodeLease(f *testing.F) {
	f.Add(homeReply(2))
	f.Add(bytesOf(7, 99, 6, 77, 1, 2, 6, 0, 6, clock, 6, 5, 6, 250, 6, 30, 5, 100, 3, 8, 6, clock-20, 6, 4))
	f.Add(bytesOf(1, 1, 1, 2, 5, 60_000, 2, 6, 6, 5, 5, 100, 3, 1, 6, 2000, 6, 0, 3, 0, 4, 0))
	f.Fuzz(func(t *testing.T, reply []byte) {
		s := counter()
		refusal := &Refusal{Refusal: lease.Refusal{Shard: 1, Clock: 8, Incarnation: 9}}
		if h, err := DecodeHomeReply(string(reply), &s, 3, refusal); err == nil {
			require.LessOrEqual(t, h.Granted, int64(3))
			s.Decide([]limit.Usage{h.Tallies[0].Usage(&s, s.Windows[0], h.Clock, 0)}, h.Clock, h.Granted, 2)
		}
		_, _ = DecodeShardReport(string(reply), &lease.Recall{States: []lease.State{State(&s, s.Windows[0])}})
		if states, _, err := DecodeStates(string(reply), "node"); err == nil {
			for _, state := range states {
				require.True(t, state.Kind.Known() || state.Kind == limit.Concurrency)
			}
		}
	})
}
