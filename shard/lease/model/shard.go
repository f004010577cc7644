package model

import "github.com/rlproxy/rlproxy/shard/lease"

// Shard is the record of a shard: what its node keeps besides the use of the windows. The
// zero Shard is a node without a record.
type Shard struct {
	Incarnation int64        // Time when the record was made, in ms; 0 if there is none.
	Expires     int64        // Time from which on the node may delete the record, in ms.
	Seq         int64        // Number of the newest loan or recall that the shard knows.
	Pairs       []lease.Pair // Limits that the loan serves.
	Strict      bool         // Demand.Strict of the requests that the loan serves.
	Held        []int64      // Units that may be in use, by pair.
	Headroom    []int64      // Units that the home had left when it made the loan, by pair.
	Taken       int64        // Time when the loan was taken, in ms.
	LeaseEnds   int64        // Time when the lease ends, in ms; 0 if there is none.
}

// usedFunc returns the units of a state that count now.
type usedFunc = func(s lease.StateName, strict bool) int64

// live reports whether the shard has a live lease. If the clock has stepped back behind a time
// that the shard has seen, the lease has ended, because it would last too long otherwise.
func (s *Shard) live(clock, newest int64) bool {
	return s.Incarnation > 0 && s.Taken <= clock && newest <= clock && clock < s.LeaseEnds
}

// Admit returns how many requests of the demand the shard's rights allow. The caller
// charges them. If some are left, the caller takes the refusal to the home, and must store
// the record, which may be new or have a later Expires.
//
// clock is the node's clock and newest is the time of its newest admission, both in ms.
func (s *Shard) Admit(rules lease.Rules, clock, newest int64, d *lease.Demand, used usedFunc) (granted int64,
	refusal lease.Refusal) {
	live := s.live(clock, newest)
	if live && d.Matches(s.Pairs, s.Strict) {
		granted = d.N
		for i, pair := range s.Pairs {
			granted = min(granted, d.Fit(s.Held[i]-used(pair.StateName, s.Strict)))
		}
	}
	if granted == d.N {
		return granted, refusal
	}
	s.remember(rules, clock, d)
	refusal = lease.Refusal{Clock: clock, Incarnation: s.Incarnation, Seq: s.Seq, LeaseEnded: !live}
	if refusal.LeaseEnded {
		for _, pair := range d.Pairs {
			refusal.Used = append(refusal.Used, lease.Units{StateName: pair.StateName, N: used(pair.StateName, d.Strict)})
		}
	}
	return granted, refusal
}

// remember makes the record, if there is none, and keeps it for as long as the home may
// count a loan that answers this refusal. So a shard that gets a recall but has no record
// must have lost it, together with what it admitted.
func (s *Shard) remember(rules lease.Rules, clock int64, d *lease.Demand) {
	if s.Incarnation == 0 {
		s.Incarnation = clock
	}
	life := int64(0)
	for _, pair := range d.Pairs {
		life = max(life, pair.Life())
	}
	if s.Expires < clock+2*rules.Lease+life {
		s.Expires = clock + 3*rules.Lease + 2*life // Later than needed, so that few refusals write.
	}
}

// Take takes a loan and reports whether it did. It does not take a loan that is older than
// a loan or recall that it knows, that answers the refusal of another incarnation, or whose
// lease has ended already.
func (s *Shard) Take(rules lease.Rules, clock int64, l *lease.Loan) bool {
	if s.Incarnation == 0 || l.Incarnation != s.Incarnation || l.Seq <= s.Seq || clock < l.Clock ||
		clock >= l.Clock+rules.Lease {
		return false
	}
	s.Seq, s.Pairs, s.Strict = l.Seq, l.Pairs, l.Strict
	s.Held, s.Headroom = l.Held, l.Headroom
	s.Taken, s.LeaseEnds = clock, l.Clock+rules.Lease
	for _, pair := range l.Pairs { // A reset may have made the record's life too short.
		s.Expires = max(s.Expires, l.Clock+2*rules.Lease+pair.Life())
	}
	return true
}

// Recall gives back the units that the shard has not used and reports those that it has.
// Recalls may be repeated and may arrive in any order.
func (s *Shard) Recall(clock, newest int64, r *lease.Recall, used usedFunc) lease.Report {
	report := lease.Report{Shard: r.Shard, Seq: r.Seq, Incarnation: s.Incarnation, Strict: r.Strict}
	if s.Incarnation == 0 || r.Seq < s.Seq {
		report.Stale = s.Incarnation > 0
		return report
	}
	s.Seq = r.Seq
	if r.EndLease {
		s.LeaseEnds = 0
	}
	for i, pair := range s.Pairs {
		s.Held[i] = min(s.Held[i], used(pair.StateName, s.Strict))
	}
	report.LeaseEnded = !s.live(clock, newest)
	for _, state := range r.States {
		report.Used = append(report.Used, lease.Units{StateName: state, N: used(state, r.Strict)})
	}
	return report
}

// Forget answers the recall of a reset. Unless the report is stale, the caller deletes the
// use of every window as well. The record keeps its incarnation: a loan that answers a refusal
// from before the reset is good if the home made it after the reset, and the number of the recall
// voids it otherwise.
func (s *Shard) Forget(rules lease.Rules, clock int64, r *lease.Recall) lease.Report {
	if r.Seq < s.Seq {
		return lease.Report{Shard: r.Shard, Seq: r.Seq, Incarnation: s.Incarnation, Stale: true}
	}
	if s.Incarnation == 0 {
		s.Incarnation = clock
	}
	*s = Shard{Incarnation: s.Incarnation, Expires: clock + 2*rules.Lease, Seq: r.Seq}
	return lease.Report{Shard: r.Shard, Seq: r.Seq, Incarnation: s.Incarnation, LeaseEnded: true}
}
