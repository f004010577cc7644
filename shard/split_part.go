package shard

// Part is a part's record: what its node keeps beside the use of the windows. The
// zero Part is a node that keeps nothing.
type Part struct {
	Born   int64 // ms, when the record was made; 0: there is none
	Ends   int64 // ms, when the node may forget it
	Seq    int64 // newest loan or recall that it knows
	Pairs  []Pair
	Strict bool
	Held   []int64 // by pair: most that may be in use
	Rest   []int64 // by pair: room at home when the loan was made
	Taken  int64   // ms, when the loan was taken
	Lease  int64   // ms, when it ends; 0: there is none
}

// live tells whether the part may admit. A clock that went back behind what the
// part has seen ends the lease: it would last too long.
func (p *Part) live(clock, newest int64) bool {
	return p.Born > 0 && p.Taken <= clock && newest <= clock && clock < p.Lease
}

// Ask admits what the part's rights allow: the caller charges granted times the
// cost. If that is less than all, miss is for the home, and the record must be
// stored: it may have been made or kept alive.
//
// clock is the node's and newest the time of its newest admission, in ms; used tells
// what counts now.
func (p *Part) Ask(rules Rules, clock, newest int64, a *Ask, used func(s State, strict bool) int64) (granted int64, miss Miss) {
	live := p.live(clock, newest)
	if live && a.Same(p.Pairs, p.Strict) {
		granted = a.N
		for i, pair := range p.Pairs {
			granted = min(granted, a.fit(p.Held[i]-used(pair.State, p.Strict)))
		}
	}
	if granted == a.N {
		return granted, miss
	}
	p.remember(rules, clock, a)
	miss = Miss{Clock: clock, Born: p.Born, Seq: p.Seq, Over: !live}
	if miss.Over {
		for _, pair := range a.Pairs {
			miss.Used = append(miss.Used, Units{pair.State, used(pair.State, a.Strict)})
		}
	}
	return granted, miss
}

// remember makes the record, if there is none, and lets it live for as long as the
// home may count a loan that this miss brings. A part that answers a recall without
// a record has lost it, with what it admitted.
func (p *Part) remember(rules Rules, clock int64, a *Ask) {
	if p.Born == 0 {
		p.Born = clock
	}
	life := int64(0)
	for _, pair := range a.Pairs {
		life = max(life, pair.Life())
	}
	if p.Ends < clock+2*rules.Lease+life {
		p.Ends = clock + 3*rules.Lease + 2*life // ahead, so that few misses write
	}
}

// Take takes a loan, unless it is old: overtaken by a newer loan or a recall, asked
// for by another record than this, or as old as a lease is long.
func (p *Part) Take(rules Rules, clock int64, l *Loan) bool {
	if p.Born == 0 || l.Born != p.Born || l.Seq <= p.Seq || clock < l.Clock || clock >= l.Clock+rules.Lease {
		return false
	}
	p.Seq, p.Pairs, p.Strict = l.Seq, l.Pairs, l.Strict
	p.Held, p.Rest = l.Held, l.Rest
	p.Taken, p.Lease = clock, l.Clock+rules.Lease
	return true
}

// Recall gives back what is not used and reports what is. It may come any number of
// times, in any order.
func (p *Part) Recall(clock, newest int64, r *Recall, used func(s State, strict bool) int64) Report {
	report := Report{Part: r.Part, Seq: r.Seq, Born: p.Born, Strict: r.Strict}
	if p.Born == 0 || r.Seq < p.Seq {
		report.Stale = p.Born > 0
		return report
	}
	p.Seq = r.Seq
	if r.Close {
		p.Lease = 0
	}
	for i, pair := range p.Pairs {
		p.Held[i] = min(p.Held[i], used(pair.State, p.Strict))
	}
	report.Over = !p.live(clock, newest)
	for _, s := range r.States {
		report.Used = append(report.Used, Units{s, used(s, r.Strict)})
	}
	return report
}

// Forget is a reset's recall: the caller deletes the use of every window as well,
// unless the report is stale. A new record replaces the old one, so that no loan
// asked for until now is taken.
func (p *Part) Forget(rules Rules, clock int64, r *Recall) Report {
	if r.Seq < p.Seq {
		return Report{Part: r.Part, Seq: r.Seq, Born: p.Born, Stale: true}
	}
	born := max(clock, p.Born) + 1
	*p = Part{Born: born, Ends: clock + 2*rules.Lease, Seq: r.Seq}
	return Report{Part: r.Part, Seq: r.Seq, Born: born, Over: true}
}
