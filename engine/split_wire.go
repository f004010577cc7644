package engine

import (
	"github.com/rlproxy/rlproxy/shard"
)

// Messages of the protocol in package shard as the scripts of split keys read and
// write them; each script's header says how.

// splitState returns what r charges over w, as the protocol names it.
func (r *Request) splitState(w Window) shard.State {
	s := shard.State{Kind: byte(r.Op), Window: w.Length}
	if r.Op == OpCounter {
		s.Buckets = r.Buckets
	}
	return s
}

// pairs returns r's limits as the protocol has them.
func (r *Request) pairs() []shard.Pair {
	out := make([]shard.Pair, r.N)
	for i, w := range r.Windows[:r.N] {
		out[i] = shard.Pair{State: r.splitState(w), Limit: w.Limit}
	}
	return out
}

func appendState(b []byte, s shard.State) []byte {
	b = append(b, s.Kind)
	b = appendUint(b, s.Window, 5)
	return appendUint(b, max(s.Buckets, 1), 2)
}

func (r *reader) state() shard.State {
	s := shard.State{Kind: byte(r.uint(1)), Window: r.uint(5), Buckets: r.uint(2)} // #nosec G115 -- one byte
	if Op(s.Kind) != OpCounter {
		s.Buckets = 0
	}
	return s
}

func bit(set bool, b byte) byte {
	if set {
		return b
	}
	return 0
}

// missed is a part's miss, and the ms until the first of what it has used is not used
// any more, by pair.
type missed struct {
	shard.Miss
	first []int64
}

// miss reads what lua/part.lua says of a miss, about the pairs.
func (r *reader) miss(part int, pairs []shard.Pair) *missed {
	m := &missed{Miss: shard.Miss{Part: part, Clock: r.uint(6), Born: r.uint(6), Seq: r.uint(7), Over: r.uint(1) == 1}}
	if m.Over {
		for _, p := range pairs {
			m.Used = append(m.Used, shard.Units{State: p.State, N: r.uint(6)})
			m.first = append(m.first, r.uint(6))
		}
	}
	return m
}

func (m *missed) pack() []byte {
	b := appendUint(nil, int64(m.Part), 4)
	b = appendUint(b, m.Clock, 6)
	b = appendUint(b, m.Born, 6)
	b = appendUint(b, m.Seq, 7)
	b = append(b, bit(m.Over, 1))
	for i, u := range m.Used {
		b = appendUint(b, u.N, 6)
		b = appendUint(b, m.first[i], 6)
	}
	return b
}

// reported is a part's report, with what the protocol itself has no use for.
type reported struct {
	shard.Report
	first []int64 // ms until the first of what is used is not, by state
	held  []int64 // by state, as the next two
	limit []int64 // as last charged
	rate  []int64 // charging calls per second
	lease int64   // ms until it ends
	sent  int64   // ms of the engine's clock when it was asked for: the others count from then
	node  *node
}

// holding is what a report says of one state.
type holding struct{ used, first, held int64 }

func (p *reported) of(s shard.State) holding {
	for i, u := range p.Used {
		if u.State == s {
			return holding{u.N, p.first[i], p.held[i]}
		}
	}
	return holding{}
}

// What lua/recall.lua is asked to do.
const (
	doRecall byte = iota
	doForget
	doPeek
)

func appendRecall(b []byte, what byte, r *shard.Recall) []byte {
	b = appendUint(append(b, what), r.Seq, 7)
	b = append(b, bit(r.Close, 1)|bit(r.Strict, 2))
	for _, s := range r.States {
		b = appendState(b, s)
	}
	return b
}

// report reads the answer to a recall.
func (r *reader) report(to *shard.Recall) *reported {
	p := &reported{Report: shard.Report{Part: to.Part, Seq: r.uint(7), Born: r.uint(6)}}
	flags := r.uint(1)
	p.Stale, p.Over, p.Strict = flags&1 != 0, flags&2 != 0, flags&4 != 0
	p.lease = r.uint(6)
	for _, s := range to.States {
		p.Used = append(p.Used, shard.Units{State: s, N: r.uint(6)})
		p.first, p.held = append(p.first, r.uint(6)), append(p.held, r.uint(6))
		p.limit, p.rate = append(p.limit, r.uint(5)), append(p.rate, r.uint(3))
	}
	return p
}

func appendReport(b []byte, r *shard.Report) []byte {
	b = appendUint(b, int64(r.Part), 4)
	b = appendUint(b, r.Seq, 7)
	b = appendUint(b, r.Born, 6)
	b = append(b, bit(r.Stale, 1)|bit(r.Over, 2)|bit(r.Strict, 4), byte(len(r.Used))) // #nosec G115 -- a key has few states
	for _, u := range r.Used {
		b = appendState(b, u.State)
		b = appendUint(b, u.N, 6)
	}
	return b
}

func appendLoan(b []byte, l *shard.Loan) []byte {
	b = appendUint(b, l.Seq, 7)
	b = appendUint(b, l.Born, 6)
	b = appendUint(b, l.Clock, 6)
	b = append(b, bit(l.Strict, 1))
	for i, p := range l.Pairs {
		b = appendState(b, p.State)
		b = appendUint(b, p.Limit, 5)
		b = appendUint(b, l.Held[i], 6)
		b = appendUint(b, l.Rest[i], 6)
	}
	return b
}

// tally is what counts of one window on a split key, as the home sees it.
type tally struct {
	used   int64 // by all
	own    int64 // by the home itself, what the question was granted included
	first  int64 // ms until the first of own is not used
	last   int64 // ms from the clock
	newest int64
	lent   int64 // what parts count, in all
}

// lentTo is a part that counts.
type lentTo struct {
	part int
	born int64
	out  []int64 // by pair
}

// homeAnswer is what lua/lend.lua says.
type homeAnswer struct {
	shard.Answer
	clock   int64
	rate    int64
	parts   int
	tallies []tally
	lent    []lentTo
}

// answer reads it. miss is the one that was sent along, nil if there was none.
func (r *reader) answer(a *shard.Ask, miss *missed) *homeAnswer {
	h := &homeAnswer{clock: r.uint(6)}
	h.Granted, h.rate, h.parts = r.uint(4), r.uint(3), int(r.uint(2))
	for range a.Pairs {
		t := tally{used: r.uint(6), own: r.uint(6), first: r.uint(6), last: r.uint(6), newest: r.uint(6), lent: r.uint(6)}
		t.last -= h.clock
		h.tallies = append(h.tallies, t)
	}
	for range r.uint(2) {
		l := lentTo{part: int(r.uint(4)), born: r.uint(6)}
		for range a.Pairs {
			l.out = append(l.out, r.uint(6))
		}
		h.lent = append(h.lent, l)
	}
	for range r.uint(2) {
		to := shard.Recall{Part: int(r.uint(4)), Seq: r.uint(7)}
		flags := r.uint(1)
		to.Close, to.Strict = flags&1 != 0, flags&2 != 0
		for range r.uint(1) {
			to.States = append(to.States, r.state())
		}
		h.Recall = append(h.Recall, to)
	}
	if r.s != "" && miss != nil {
		h.Loan = &shard.Loan{Part: miss.Part, Seq: r.uint(7), Pairs: a.Pairs, Strict: a.Strict, Clock: miss.Clock, Born: miss.Born}
		for range a.Pairs {
			h.Loan.Held = append(h.Loan.Held, r.uint(6))
			h.Loan.Rest = append(h.Loan.Rest, r.uint(6))
		}
	}
	return h
}
