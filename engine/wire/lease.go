package wire

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// Pairs returns a spec's limits as pairs of package lease.
func Pairs(s *limit.Spec) []lease.Pair {
	pairs := make([]lease.Pair, s.N)
	for i, w := range s.Limits() {
		pairs[i] = lease.Pair{StateName: State(s, w), Limit: w.Limit}
	}
	return pairs
}

// State returns the state of package lease that a spec charges for one of its windows.
func State(s *limit.Spec, w limit.Window) lease.StateName {
	parameter, window := w.NodeName(s.Param)
	state := lease.StateName{Kind: byte(s.Kind), Window: window}
	if s.Kind == limit.Counter || parameter > 1 {
		state.Buckets = parameter
	}
	return state
}

// appendState packs the name of a state as in a stored record: kind 1, parameter 5, window 5.
func appendState(b []byte, s lease.StateName) []byte {
	b = append(b, s.Kind)
	b = appendUint(b, max(s.Buckets, 1), 5)
	return appendUint(b, s.Window, 5)
}

func (r *reader) state() lease.StateName {
	s := lease.StateName{Kind: byte(r.uint(1)), Buckets: r.uint(5), Window: r.uint(5)} // #nosec G115 -- one byte
	if limit.Kind(s.Kind) != limit.Counter && s.Buckets == 1 {
		s.Buckets = 0
	}
	return s
}

// Refusal is what a shard replies to requests that it does not admit.
type Refusal struct {
	lease.Refusal `msg:"refusal"`
	First         []int64 `msg:"first,ms"` // by pair: ms until the first unit in use is free again; only if LeaseEnded
}

// decodeRefusal decodes a shard's refusal of requests with the spec s. The caller sets Shard.
func decodeRefusal(text string, s *limit.Spec) (*Refusal, error) {
	f := new(Refusal)
	if err := Unpack(text, f); err != nil {
		return nil, err
	}
	var asked []lease.StateName
	if f.LeaseEnded {
		for _, p := range Pairs(s) {
			asked = append(asked, p.StateName)
		}
	}
	if !slices.Equal(statesOf(f.Used), asked) || len(f.First) != len(asked) {
		return nil, errInconsistent
	}
	return f, nil
}

func statesOf(used []lease.Units) (states []lease.StateName) {
	for _, u := range used {
		states = append(states, u.StateName)
	}
	return states
}

// Lend is the request of the function lend, which asks the home. If the spec has no cost or no windows, the home only
// reports.
type Lend struct {
	Spec        string         `msg:"spec"`
	Requests    int64          `msg:"requests,count"`
	Shards      int            `msg:"shards,count"` // that the caller wants
	ID          string         `msg:"id?"`          // of the only request, see IDFields
	Refusal     *lease.Refusal `msg:"refusal?"`
	Reports     []lease.Report `msg:"reports"`
	Unreachable []int          `msg:"unreachable,shard"`
}

// NewLend returns a request with the spec s, without an ID. q has the demand; it is nil if the home is only to report.
func NewLend(s *limit.Spec, shards int, q *lease.HomeRequest) *Lend {
	asked := spec{Spec: *s, reset: s.N == 0}
	m := &Lend{Spec: string(asked.append(nil)), Requests: 1, Shards: shards}
	if q != nil {
		m.Requests, m.Refusal, m.Reports, m.Unreachable = q.Demand.N, q.Refusal, q.Reports, q.Unreachable
	}
	return m
}

// Lent is the reply of the function lend: the home's, or if the id is known, what the function admit replies.
type Lent struct {
	Known string     `msg:"known?"`
	Home  *HomeReply `msg:"home?"`
}

// HomeReply is the home's reply, with fields that the protocol of package lease does not need.
type HomeReply struct {
	lease.HomeReply `msg:"decision"`
	Clock           int64 `msg:"clock,clock"`  // home's clock in ms
	Rate            int64 `msg:"rate,count"`   // charging calls per second at the home
	Shards          int   `msg:"shards,count"` // number of shards of the key; 0: the key is not split
	// units of the key are held at home, so a denial must not be remembered
	Held    bool     `msg:"held"`
	Lapsed  int64    `msg:"lapsed,count"` // holds that had lapsed and were removed by this call
	Tallies []Tally  `msg:"tallies"`      // by window of the spec
	Lent    []Loaned `msg:"lent"`         // shards that have units on loan
}

// Tally is the use of one window of a split key, as far as the home knows.
type Tally struct {
	Used  int64 `msg:"used,units"`  // units used by the home, and by the shards as the home counts them
	Own   int64 `msg:"own,units"`   // units used by the home itself, including those just granted
	First int64 `msg:"first,ms"`    // ms until the first unit of Own is free again
	Empty int64 `msg:"empty,clock"` // ms when none of Own counts any more; decoded, from Clock on: negative if past
	Lent  int64 `msg:"lent,units"`  // units that the home counts against all shards together
}

// Loaned is what the home counts against one shard.
type Loaned struct {
	Shard       int     `msg:"shard,shard"`       // number of the shard
	Incarnation int64   `msg:"incarnation,clock"` // incarnation of the shard's record that the loan went to
	Out         []int64 `msg:"out,units"`         // most units that the shard may have in use, by window of the spec
	Empty       []int64 `msg:"empty,clock"`       // ms when none of Out counts any more; decoded, from Clock on
}

// DecodeHomeReply decodes the reply of the function lend to the given number of requests with the spec s, without
// an ID. refusal is the one that was sent with them, or nil.
func DecodeHomeReply(reply string, s *limit.Spec, requests int64, refusal *lease.Refusal) (*HomeReply, error) {
	var lent Lent
	if err := Unpack(reply, &lent); err != nil {
		return nil, err
	}
	if lent.Home == nil || lent.Known != "" {
		return nil, errMalformed
	}
	return lent.Home.check(s, requests, refusal)
}

// check makes the times of the reply relative to Clock, and returns an error if the reply does not answer what was
// asked.
func (h *HomeReply) check(s *limit.Spec, requests int64, refusal *lease.Refusal) (*HomeReply, error) {
	sane := h.Granted <= requests && len(h.Tallies) == s.N
	if h.Loan != nil {
		sane = sane && refusal != nil && answers(h.Loan, s, refusal)
	}
	for i := range h.Tallies {
		h.Tallies[i].Empty -= h.Clock
	}
	for _, l := range h.Lent {
		sane = sane && len(l.Out) == s.N && len(l.Empty) == s.N
		for i := range l.Empty {
			l.Empty[i] -= h.Clock
		}
	}
	if !sane {
		return nil, errInconsistent
	}
	return h, nil
}

// answers reports whether a loan is one for requests with the spec s that a shard has refused.
func answers(l *lease.Loan, s *limit.Spec, refusal *lease.Refusal) bool {
	return l.Shard == refusal.Shard && l.Clock == refusal.Clock && l.Incarnation == refusal.Incarnation &&
		l.Strict == s.Strict() && slices.Equal(l.Pairs, Pairs(s)) && len(l.Held) == s.N && len(l.Headroom) == s.N
}

// ShardOrder is the request of the function recall: a recall for a shard. Without Forget and Report, the shard returns
// the units that are not used, and reports.
type ShardOrder struct {
	Forget bool         `msg:"forget"` // forget everything, for a reset
	Report bool         `msg:"report"` // only report
	Recall lease.Recall `msg:"recall"`
}

// ShardReport is a shard's report, with fields that the protocol of package lease does not need.
type ShardReport struct {
	lease.Report `msg:"report"`
	Clock        int64   `msg:"clock,clock"`
	LeaseLeft    int64   `msg:"lease_left,ms"` // ms until the shard's lease ends
	First        []int64 `msg:"first,ms"`      // by state: ms until the first unit in use is free again
	Empty        []int64 `msg:"empty,clock"`   // by state: ms when all of them are; decoded, from Clock on
	Held         []int64 `msg:"held,units"`    // by state: units that the shard may have in use
	Limit        []int64 `msg:"limit,units"`   // by state: the limit as last charged
	Rate         []int64 `msg:"rate,count"`    // by state: charging calls per second
}

// DecodeShardReport decodes the reply to the recall to.
func DecodeShardReport(reply string, to *lease.Recall) (*ShardReport, error) {
	p := new(ShardReport)
	if err := Unpack(reply, p); err != nil {
		return nil, err
	}
	sane := p.Shard == to.Shard && p.Seq == to.Seq && p.Strict == to.Strict && slices.Equal(statesOf(p.Used), to.States)
	for _, list := range [][]int64{p.First, p.Empty, p.Held, p.Limit, p.Rate} {
		sane = sane && len(list) == len(to.States)
	}
	for i := range p.Empty {
		p.Empty[i] -= p.Clock
	}
	if !sane {
		return nil, errInconsistent
	}
	return p, nil
}

// LoanTaken is the reply of the function take, which gives a lease.Loan to its shard.
type LoanTaken struct {
	Taken bool `msg:"taken"` // false: it was outdated
}

// Forgot is the request of the function forget, which ends a reset at the home: the shards that forgot.
type Forgot struct {
	Shards []Forgetful `msg:"shards"`
}

// Forgetful is a shard that forgot.
type Forgetful struct {
	Shard int   `msg:"shard,shard"`
	Seq   int64 `msg:"seq,number"` // of the recall with which it forgot
}

// Forgotten is the reply of the function forget.
type Forgotten struct {
	Forgotten bool `msg:"forgotten"` // nothing is left of the key
}
