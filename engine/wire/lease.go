package wire

import (
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// Pairs returns a spec's limits as pairs of package lease.
func Pairs(s *limit.Spec) []lease.Pair {
	pairs := make([]lease.Pair, s.N)
	for i, w := range s.Limits() {
		pairs[i] = lease.Pair{State: State(s, w), Limit: w.Limit}
	}
	return pairs
}

// State returns the state of package lease that a spec charges for one of its windows.
func State(s *limit.Spec, w limit.Window) lease.State {
	state := lease.State{Kind: byte(s.Kind), Window: w.Length}
	if s.Kind == limit.Counter {
		state.Buckets = s.Param
	}
	return state
}

// appendState packs a state: kind 1, parameter 5, window 5. The header of a state in the stored
// record begins with the same bytes.
func appendState(b []byte, s lease.State) []byte {
	b = append(b, s.Kind)
	b = appendUint(b, max(s.Buckets, 1), 5)
	return appendUint(b, s.Window, 5)
}

func (r *reader) state() lease.State {
	s := lease.State{Kind: byte(r.uint(1)), Buckets: r.uint(5), Window: r.uint(5)} // #nosec G115 -- one byte
	if limit.Kind(s.Kind) != limit.Counter {
		s.Buckets = 0
	}
	return s
}

// Refusal is a shard's refusal.
type Refusal struct {
	lease.Refusal
	First []int64 // by pair: ms until the first unit in use is free again; only if LeaseEnded
}

// decodeRefusal decodes a refusal: clock 6, incarnation 6, seq 7, 1 if the lease has ended 1,
// and then, if it has, for each pair the units in use 6 and the ms until the first is free 6.
// The caller sets Shard.
func decodeRefusal(text string, s *limit.Spec) (*Refusal, error) {
	r := reader{s: text}
	f := &Refusal{Refusal: lease.Refusal{Clock: r.uint(6), Incarnation: r.uint(6), Seq: r.uint(7), LeaseEnded: r.uint(1) == 1}}
	if f.LeaseEnded {
		for _, p := range Pairs(s) {
			f.Used = append(f.Used, lease.Units{State: p.State, N: r.uint(6)})
			f.First = append(f.First, r.uint(6))
		}
	}
	return f, r.end()
}

func (f *Refusal) append(b []byte) []byte {
	b = appendUint(b, int64(f.Shard), 4)
	b = appendUint(b, f.Clock, 6)
	b = appendUint(b, f.Incarnation, 6)
	b = appendUint(b, f.Seq, 7)
	b = append(b, flag(f.LeaseEnded, 1))
	for i, u := range f.Used {
		b = appendUint(b, u.N, 6)
		b = appendUint(b, f.First[i], 6)
	}
	return b
}

// HomeArgs returns the arguments of the function lend, which asks the home. s is the spec of the
// requests, and shards is the number of shards that the caller wants. q has the demand; if it is
// nil, as for a request without a cost, the home only reports. refusal is that of a shard, or nil.
func HomeArgs(s *limit.Spec, shards int, q *lease.HomeRequest, refusal *Refusal) [][]byte {
	n := int64(1)
	var refused, reports, unreachable []byte
	if q != nil {
		n = q.Demand.N
		for i := range q.Reports {
			reports = appendReport(reports, &q.Reports[i])
		}
		for _, number := range q.Unreachable {
			unreachable = appendUint(unreachable, int64(number), 4)
		}
	}
	if refusal != nil {
		refused = refusal.append(nil)
	}
	asked := spec{Spec: *s, reset: s.N == 0}
	return [][]byte{appendUint(appendUint(nil, n, 4), int64(shards), 2), asked.append(nil), refused, reports, unreachable}
}

// HomeReply is the home's reply, with fields that the protocol of package lease does not need.
type HomeReply struct {
	lease.HomeReply
	Clock   int64   // home's clock in ms
	Rate    int64   // charging calls per second at the home
	Shards  int     // number of shards in the layout; 0: the key is not split
	Held    bool    // units of the key are held at home, so a denial must not be remembered
	Lapsed  int64   // holds that had lapsed and were removed by this call
	Tallies []Tally // by window of the spec
	Lent    []Lent  // shards that have units on loan
}

// Tally is the use of one window of a split key, as far as the home knows.
type Tally struct {
	Used   int64 // units used by the home, and by the shards as the home counts them
	Own    int64 // units used by the home itself, including those just granted
	First  int64 // ms until the first unit of Own is free again
	Last   int64 // ms from the clock to the home's newest admission; negative if that is past
	Newest int64 // units in the home's newest sub-window
	Lent   int64 // units that the home counts against all shards together
}

// Usage returns the tally as the usage from which a decision is made. Since the home does not know
// when the shards admitted, the window's newest admission is as late as it can be. charged is the units just granted.
func (t *Tally) Usage(s *limit.Spec, w limit.Window, clock, charged int64) limit.Usage {
	u, last, newest := limit.Usage{Used: t.Used}, t.Last, t.Newest
	if t.Lent > 0 { // shards admit until now
		last, newest = max(t.Last, 0), t.Newest+t.Lent
	}
	s.Date(w, clock, &u, last, newest, charged)
	return u
}

// Lent is what the home counts against one shard.
type Lent struct {
	Shard       int     // number of the shard
	Incarnation int64   // incarnation of the shard's record that the loan went to
	Out         []int64 // most units that the shard may have in use, by window of the spec
}

// DecodeHomeReply decodes the reply of the function lend to the given number of requests with
// the spec s. refusal is the one that was sent with them, or nil.
func DecodeHomeReply(reply string, s *limit.Spec, requests int64, refusal *Refusal) (*HomeReply, error) {
	r := reader{s: reply}
	h := &HomeReply{Clock: r.uint(6)}
	h.Granted, h.Rate, h.Shards = r.uint(4), r.uint(3), int(r.uint(2))
	if h.Held = h.Shards >= heldBit; h.Held {
		h.Shards, h.Lapsed = h.Shards-heldBit, r.uint(3)
	}
	for range s.N {
		t := Tally{Used: r.uint(6), Own: r.uint(6), First: r.uint(6), Last: r.uint(6) - h.Clock, Newest: r.uint(6), Lent: r.uint(6)}
		h.Tallies = append(h.Tallies, t)
	}
	for n := r.uint(2); n > 0 && !r.bad; n-- {
		l := Lent{Shard: int(r.uint(4)), Incarnation: r.uint(6)}
		for range s.N {
			l.Out = append(l.Out, r.uint(6))
		}
		h.Lent = append(h.Lent, l)
	}
	for n := r.uint(2); n > 0 && !r.bad; n-- {
		h.Recalls = append(h.Recalls, r.recall())
	}
	if r.s != "" && refusal != nil {
		h.Loan = &lease.Loan{
			Shard: refusal.Shard, Seq: r.uint(7), Pairs: Pairs(s), Strict: s.Strict(),
			Clock: refusal.Clock, Incarnation: refusal.Incarnation,
		}
		for range s.N {
			h.Loan.Held, h.Loan.Headroom = append(h.Loan.Held, r.uint(6)), append(h.Loan.Headroom, r.uint(6))
		}
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if !h.consistent(requests) {
		return nil, errInconsistent
	}
	return h, nil
}

// heldBit is added to the number of shards in a home's reply if units of the key are held.
const heldBit = 1 << 15

// consistent reports whether the reply's numbers are within bounds.
func (h *HomeReply) consistent(requests int64) bool {
	if h.Granted > requests || h.Clock > maxClock {
		return false
	}
	for _, t := range h.Tallies {
		if t.Used > maxUnits || t.Own > maxUnits || t.Newest > maxUnits || t.Lent > maxUnits || t.Last > maxDelay || t.First > maxDelay {
			return false
		}
	}
	for _, l := range h.Lent {
		if l.Shard == 0 || l.Shard > maxShardNumber {
			return false
		}
		for _, n := range l.Out {
			if n > maxUnits {
				return false
			}
		}
	}
	for _, r := range h.Recalls {
		if r.Shard == 0 || r.Shard > maxShardNumber {
			return false
		}
	}
	return true
}

// maxShardNumber bounds the number of a shard. In a cluster it may be larger than the number of
// shards, because it is chosen for its slot.
const maxShardNumber = 999_999_999

// recall decodes a recall: shard 4, seq 7, flags 1 (1: end the lease, 2: strict), the number of
// states 1, and the states.
func (r *reader) recall() lease.Recall {
	to := lease.Recall{Shard: int(r.uint(4)), Seq: r.uint(7)}
	flags := r.uint(1)
	to.EndLease, to.Strict = flags&1 != 0, flags&2 != 0
	for n := r.uint(1); n > 0 && !r.bad; n-- {
		to.States = append(to.States, r.state())
	}
	return to
}

// LoanArgs returns the argument of the function take, which gives a loan to its shard: seq 7,
// incarnation 6, clock 6, 1 if it is strict 1, and for each pair the state, its limit 5, the
// units held 6 and the headroom 6.
func LoanArgs(l *lease.Loan) [][]byte {
	b := appendUint(nil, l.Seq, 7)
	b = appendUint(b, l.Incarnation, 6)
	b = appendUint(b, l.Clock, 6)
	b = append(b, flag(l.Strict, 1))
	for i, p := range l.Pairs {
		b = appendState(b, p.State)
		b = appendUint(b, p.Limit, 5)
		b = appendUint(b, l.Held[i], 6)
		b = appendUint(b, l.Headroom[i], 6)
	}
	return [][]byte{b}
}

// Purpose says what the function recall does at a shard.
type Purpose byte

// The purposes, with their values on the wire.
const (
	Return Purpose = iota // return the units that are not used, and report
	Forget                // forget everything, for a reset
	Report                // only report
)

// RecallArgs returns the argument of the function recall: the purpose 1, seq 7, flags 1 (1: end
// the lease, 2: strict), and the states to report.
func RecallArgs(purpose Purpose, r *lease.Recall) [][]byte {
	b := appendUint([]byte{byte(purpose)}, r.Seq, 7)
	b = append(b, flag(r.EndLease, 1)|flag(r.Strict, 2))
	for _, s := range r.States {
		b = appendState(b, s)
	}
	return [][]byte{b}
}

// ShardReport is a shard's report, with fields that the protocol of package lease does not need.
type ShardReport struct {
	lease.Report
	LeaseLeft int64   // ms until the shard's lease ends
	First     []int64 // by state: ms until the first unit in use is free again
	Held      []int64 // by state: units that the shard may have in use
	Limit     []int64 // by state: the limit as last charged
	Rate      []int64 // by state: charging calls per second
	Last      []int64 // by state: ms from the shard's clock to its newest admission; negative if that is past
	Newest    []int64 // by state: units in the shard's newest sub-window
}

// DecodeShardReport decodes the reply to the recall to.
func DecodeShardReport(reply string, to *lease.Recall) (*ShardReport, error) {
	r := reader{s: reply}
	p := &ShardReport{Report: lease.Report{Shard: to.Shard, Seq: r.uint(7), Incarnation: r.uint(6)}}
	flags := r.uint(1)
	p.Stale, p.LeaseEnded, p.Strict = flags&1 != 0, flags&2 != 0, flags&4 != 0
	p.LeaseLeft = r.uint(6)
	clock := r.uint(6)
	sane := p.LeaseLeft <= maxDelay && clock <= maxClock
	for _, s := range to.States {
		u := lease.Units{State: s, N: r.uint(6)}
		first, held := r.uint(6), r.uint(6)
		p.Used = append(p.Used, u)
		p.First, p.Held = append(p.First, first), append(p.Held, held)
		p.Limit, p.Rate = append(p.Limit, r.uint(5)), append(p.Rate, r.uint(3))
		last, newest := r.uint(6)-clock, r.uint(6)
		p.Last, p.Newest = append(p.Last, last), append(p.Newest, newest)
		sane = sane && u.N <= maxUnits && first <= maxDelay && held <= maxUnits && last <= maxDelay && newest <= maxUnits
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	if !sane {
		return nil, errInconsistent
	}
	return p, nil
}

func appendReport(b []byte, r *lease.Report) []byte {
	b = appendUint(b, int64(r.Shard), 4)
	b = appendUint(b, r.Seq, 7)
	b = appendUint(b, r.Incarnation, 6)
	b = append(b, flag(r.Stale, 1)|flag(r.LeaseEnded, 2)|flag(r.Strict, 4), byte(len(r.Used))) // #nosec G115 -- a key has few states
	for _, u := range r.Used {
		b = appendState(b, u.State)
		b = appendUint(b, u.N, 6)
	}
	return b
}

// ForgetArgs returns the argument of the function forget, which ends a reset at the home: for
// each shard that forgot, its number 4 and the seq of its recall 7.
func ForgetArgs(forgot []*ShardReport) [][]byte {
	var b []byte
	for _, r := range forgot {
		b = appendUint(appendUint(b, int64(r.Shard), 4), r.Seq, 7)
	}
	return [][]byte{b}
}

// Forgotten is the reply of the function forget when nothing is left of the key.
const Forgotten = "\x01"
