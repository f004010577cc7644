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

func TestNewLend(t *testing.T) {
	s := counter()
	require.Equal(t, lease.StateName{Kind: 2, Window: 60_000, Buckets: 6}, State(&s, s.Windows[0]))
	q := &lease.HomeRequest{
		Demand:      &lease.Demand{N: 3},
		Refusal:     &lease.Refusal{Shard: 1},
		Reports:     []lease.Report{{Shard: 2}},
		Unreachable: []int{4},
	}
	packed := string(bytesOf(6, 1, 1, 0, 1, 2, 5, 6, 5, 60_000, 5, 100))
	require.Equal(t, &Lend{packed, 3, 5, "", q.Refusal, q.Reports, q.Unreachable}, NewLend(&s, 5, q))
	nothing := string(bytesOf(6, 0, 1, 0, 1, kindReset, 5, 0))
	require.Equal(t, &Lend{Spec: nothing, Requests: 1, Shards: 1}, NewLend(&limit.Spec{}, 1, nil), "without windows")
}

// homeReply returns a reply with one shard that was lent to, one recall and a loan, and the refusal that the loan answers.
func homeReply() (*HomeReply, *lease.Refusal) {
	s := counter()
	h := &HomeReply{
		Clock: clock, Rate: 2, Shards: 4,
		Tallies: []Tally{{Used: 50, Own: 20, First: 900, Empty: clock - 5, Lent: 30}},
		Lent:    []Loaned{{Shard: 2, Incarnation: 77, Out: []int64{30}, Empty: []int64{clock + 7}}},
	}
	h.Granted = 2
	h.Recalls = []lease.Recall{{Shard: 2, Seq: 99, EndLease: true, States: []lease.StateName{State(&s, s.Windows[0])}}}
	h.Loan = &lease.Loan{Shard: 1, Seq: 100, Pairs: Pairs(&s), Held: []int64{12}, Headroom: []int64{40}, Clock: 8, Incarnation: 9}
	return h, &lease.Refusal{Shard: 1, Clock: 8, Incarnation: 9}
}

func TestDecodeHomeReply(t *testing.T) {
	s := counter()
	sent, refusal := homeReply()
	packed := string(Pack(&Lent{Home: sent}))
	h, err := DecodeHomeReply(packed, &s, 3, refusal)
	require.NoError(t, err)
	require.EqualValues(t, -5, h.Tallies[0].Empty)
	require.EqualValues(t, 7, h.Lent[0].Empty[0])
	sent.Tallies[0].Empty, sent.Lent[0].Empty[0] = -5, 7
	require.Equal(t, sent, h)
	_, err = DecodeHomeReply(packed, &s, 1, refusal)
	require.ErrorIs(t, err, errInconsistent, "more granted than asked for")
	_, err = DecodeHomeReply(packed, &s, 3, nil)
	require.ErrorIs(t, err, errInconsistent, "a loan without a refusal")
	sent, _ = homeReply()
	for _, wrong := range []Lent{{}, {Known: "a"}, {Known: "a", Home: sent}} {
		_, err = DecodeHomeReply(string(Pack(&wrong)), &s, 3, refusal)
		require.ErrorIs(t, err, errMalformed)
	}
}

// A reply with a number that no home can have is refused.
func TestDecodeHomeReplyRefusesWhatCannotBe(t *testing.T) {
	s := counter()
	for name, change := range map[string]func(h *HomeReply){
		"a far clock":               func(h *HomeReply) { h.Clock = maxClock + 1 },
		"a huge use":                func(h *HomeReply) { h.Tallies[0].Used = maxUnits + 1 },
		"a huge use of its own":     func(h *HomeReply) { h.Tallies[0].Own = maxUnits + 1 },
		"a negative use":            func(h *HomeReply) { h.Tallies[0].Own = -1 },
		"a far first unit":          func(h *HomeReply) { h.Tallies[0].First = maxDelay + 1 },
		"a far end":                 func(h *HomeReply) { h.Tallies[0].Empty = maxClock + 1 },
		"a far end of a loan":       func(h *HomeReply) { h.Lent[0].Empty[0] = maxClock + 1 },
		"no end of a loan":          func(h *HomeReply) { h.Lent[0].Empty = nil },
		"huge loans":                func(h *HomeReply) { h.Tallies[0].Lent = maxUnits + 1 },
		"a loan to itself":          func(h *HomeReply) { h.Lent[0].Shard = 0 },
		"a loan to no shard":        func(h *HomeReply) { h.Lent[0].Shard = 1e9 },
		"a huge loan":               func(h *HomeReply) { h.Lent[0].Out[0] = maxUnits + 1 },
		"a loan of other windows":   func(h *HomeReply) { h.Lent[0].Out = nil },
		"a recall of itself":        func(h *HomeReply) { h.Recalls[0].Shard = 0 },
		"a recall of no shard":      func(h *HomeReply) { h.Recalls[0].Shard = 1e9 },
		"no windows":                func(h *HomeReply) { h.Tallies = nil },
		"a loan to another shard":   func(h *HomeReply) { h.Loan.Shard++ },
		"a loan for another time":   func(h *HomeReply) { h.Loan.Clock++ },
		"a loan for another record": func(h *HomeReply) { h.Loan.Incarnation++ },
		"a loan for another count":  func(h *HomeReply) { h.Loan.Strict = true },
		"a loan of other limits":    func(h *HomeReply) { h.Loan.Pairs[0].Limit++ },
		"a loan of nothing":         func(h *HomeReply) { h.Loan.Held = nil },
		"a loan without headroom":   func(h *HomeReply) { h.Loan.Headroom = nil },
	} {
		h, refusal := homeReply()
		change(h)
		_, err := DecodeHomeReply(string(Pack(&Lent{Home: h})), &s, 3, refusal)
		require.ErrorIs(t, err, errInconsistent, name)
	}
}

// shardReport returns a report about one state, and the recall that it answers.
func shardReport() (*ShardReport, *lease.Recall) {
	s := counter()
	to := &lease.Recall{Shard: 2, Seq: 99, Strict: true, States: []lease.StateName{State(&s, s.Windows[0])}}
	return &ShardReport{
		Report: lease.Report{Shard: 2, Seq: 99, Incarnation: 77, LeaseEnded: true, Strict: true, Used: []lease.Units{{StateName: to.States[0], N: 5}}},
		Clock:  clock, LeaseLeft: 6,
		First: []int64{250}, Empty: []int64{clock + 300}, Held: []int64{30}, Limit: []int64{100}, Rate: []int64{8},
	}, to
}

func TestDecodeShardReport(t *testing.T) {
	sent, to := shardReport()
	p, err := DecodeShardReport(string(Pack(sent)), to)
	require.NoError(t, err)
	sent.Empty[0] = 300
	require.Equal(t, sent, p)
	for name, change := range map[string]func(p *ShardReport){
		"a huge use":       func(p *ShardReport) { p.Used[0].N = maxUnits + 1 },
		"a far first unit": func(p *ShardReport) { p.First[0] = maxDelay + 1 },
		"huge rights":      func(p *ShardReport) { p.Held[0] = maxUnits + 1 },
		"a far end":        func(p *ShardReport) { p.Empty[0] = maxClock + 1 },
		"a lease for long": func(p *ShardReport) { p.LeaseLeft = maxDelay + 1 },
		"a far clock":      func(p *ShardReport) { p.Clock = maxClock + 1 },
		"another shard":    func(p *ShardReport) { p.Shard++ },
		"another recall":   func(p *ShardReport) { p.Seq++ },
		"another count":    func(p *ShardReport) { p.Strict = false },
		"another state":    func(p *ShardReport) { p.Used[0].Window++ },
		"no state":         func(p *ShardReport) { p.Used = nil },
		"no first unit":    func(p *ShardReport) { p.First = nil },
		"no rights":        func(p *ShardReport) { p.Held = nil },
		"no limit":         func(p *ShardReport) { p.Limit = nil },
		"no rate":          func(p *ShardReport) { p.Rate = nil },
		"no end":           func(p *ShardReport) { p.Empty = nil },
	} {
		sent, to := shardReport()
		change(sent)
		_, err = DecodeShardReport(string(Pack(sent)), to)
		require.ErrorIs(t, err, errInconsistent, name)
	}
}

// Whatever a home or a shard replies, decoding returns an error or valid numbers.
func FuzzDecodeLease(f *testing.F) {
	h, refusal := homeReply()
	report, to := shardReport()
	f.Add(Pack(&Lent{Home: h}))
	f.Add(Pack(&Lent{Known: "a"}))
	f.Add(Pack(report))
	f.Add(Pack(&KeyStates{States: []Inspected{{Kind: limit.Slide, Window: 60_000, Param: 1, Used: 5, Limit: 100}}}))
	f.Add(Pack(&Forgotten{Forgotten: true}))
	f.Fuzz(func(t *testing.T, reply []byte) {
		s := counter()
		if h, err := DecodeHomeReply(string(reply), &s, 3, refusal); err == nil {
			require.LessOrEqual(t, h.Granted, int64(3))
			s.Decide([]limit.Usage{{Used: h.Tallies[0].Used, Empty: h.Tallies[0].Empty}}, h.Clock, h.Granted, 2)
		}
		if p, err := DecodeShardReport(string(reply), to); err == nil {
			require.Len(t, p.Empty, len(p.Used))
		}
		if states, _, err := DecodeStates(string(reply), "node"); err == nil {
			for _, state := range states {
				require.True(t, state.Kind.Known() || state.Kind == limit.Concurrency)
			}
		}
		_ = Unpack(string(reply), new(Forgotten))
	})
}
