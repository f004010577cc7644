package model

import (
	"slices"

	"github.com/rlproxy/rlproxy/shard/lease"
)

// Home is the home's record: what its node keeps besides the home's own use of the windows.
type Home struct {
	Shards         int          // Number of shards, including the home. Below 2 the home lends nothing.
	Pairs          []lease.Pair // Limits that the live leases serve.
	Strict         bool         // Demand.Strict of the requests that the live leases serve.
	Lent           []Lent       // What is lent, at most one entry per shard.
	Seq            int64        // Number of the newest loan to any shard.
	NoLendingUntil int64        // Time before which the home lends nothing, in ms.
}

// Lent is what the home knows about one shard that it has lent to.
type Lent struct {
	Shard int // Number of the shard.
	// Number of the newest loan: at least 1000 times the home's clock in ms when the loan was made.
	Seq         int64
	Incarnation int64         // Incarnation of the shard's record that the loan was for.
	LeaseEnded  bool          // The shard has reported that its lease has ended.
	Strict      bool          // Out counts the oldest sub-window of counters in full.
	Out         []lease.Units // Most units that the shard may have in use.
}

// Decide answers a request. own is the home's own use in units, by pair of the demand, and
// clock is the home's clock in ms. The caller charges what is granted. A denial changes nothing
// but applies the reports that the request brings.
func (h *Home) Decide(rules lease.Rules, clock int64, q *lease.HomeRequest, own []int64) lease.HomeReply {
	h.expire(rules, clock)
	reports := slices.Clip(q.Reports)
	for i := range reports {
		h.collect(&reports[i])
	}
	if r := q.Refusal; r != nil && r.LeaseEnded {
		report := lease.Report{Shard: r.Shard, Seq: r.Seq, Incarnation: r.Incarnation,
			LeaseEnded: true, Strict: q.Demand.Strict, Used: r.Used}
		if h.collect(&report) {
			reports = append(reports, report)
		}
	}
	others := h.otherLeases(rules, clock, q.Demand)
	room := h.room(q.Demand, own, others)
	granted := q.Demand.Fit(slices.Min(room))
	if granted < q.Demand.N {
		recalls := h.missingRecalls(rules, clock, q.Demand, reports, q.Unreachable)
		if len(recalls) > 0 && len(q.Reports) > 0 {
			// The home lent to shards while they were being recalled. Pause the lending, so
			// that the next round of recalls decides.
			h.NoLendingUntil = clock + rules.Lease/4
		}
		return lease.HomeReply{Granted: granted, Recalls: recalls}
	}
	for i := range room {
		room[i] -= granted * q.Demand.Cost
	}
	reply := lease.HomeReply{Granted: granted}
	if q.Refusal != nil && !others {
		reply.Loan = h.lend(rules, clock, q, room)
	}
	return reply
}

// expire forgets what no shard can have in use any more. A shard uses a loan at most until
// one lease after the home made it, and a unit counts for its life after that.
func (h *Home) expire(rules lease.Rules, clock int64) {
	for i := range h.Lent {
		l := &h.Lent[i]
		l.Out = slices.DeleteFunc(l.Out, func(u lease.Units) bool { return clock > l.Seq/1000+rules.Lease+u.Life() })
	}
	h.Lent = slices.DeleteFunc(h.Lent, func(l Lent) bool {
		return !slices.ContainsFunc(l.Out, func(u lease.Units) bool { return l.mayHave(u.StateName, true) })
	})
}

// collect applies a report, unless the home has made another loan to the shard since the
// recall. Reports on one loan may arrive in any order, since each bounds what the shard may
// have in use from then on. collect returns false if the report leaves out states that are still
// counted in the other way, strict or not, so that the shard has yet to be recalled.
func (h *Home) collect(r *lease.Report) (complete bool) {
	i := h.find(r.Shard)
	if i < 0 || r.Stale || r.Seq < h.Lent[i].Seq || r.Incarnation != h.Lent[i].Incarnation {
		return true
	}
	l := &h.Lent[i]
	l.LeaseEnded = l.LeaseEnded || r.LeaseEnded
	if r.Strict != l.Strict && !covers(r, l.Out) {
		return false
	}
	for _, used := range r.Used {
		for j := range l.Out {
			if out := &l.Out[j]; out.StateName == used.StateName && (used.N < out.N || r.Strict != l.Strict) {
				out.N = used.N
			}
		}
	}
	l.Strict = r.Strict
	return true
}

// covers reports whether the report includes all states of out.
func covers(r *lease.Report, out []lease.Units) bool {
	return !slices.ContainsFunc(out, func(o lease.Units) bool {
		return !slices.ContainsFunc(r.Used, func(u lease.Units) bool { return u.StateName == o.StateName })
	})
}

// live reports whether the shard may still admit out of its loan.
func (l *Lent) live(rules lease.Rules, clock int64) bool {
	return !l.LeaseEnded && clock <= l.Seq/1000+rules.Lease
}

// otherLeases reports whether live leases serve other limits than the demand's.
func (h *Home) otherLeases(rules lease.Rules, clock int64, d *lease.Demand) bool {
	return !d.Matches(h.Pairs, h.Strict) &&
		slices.ContainsFunc(h.Lent, func(l Lent) bool { return l.live(rules, clock) })
}

// room returns the units left of the limit, by pair. While leases serve other limits on the
// same state, the home observes those limits too, because the shards admit up to them. While
// leases count in the other way (see Demand.Strict), it has no room until they are recalled.
func (h *Home) room(d *lease.Demand, own []int64, others bool) []int64 {
	room := make([]int64, len(d.Pairs))
	for i, pair := range d.Pairs {
		limit := pair.Limit
		for _, lent := range h.Pairs {
			if others && lent.StateName == pair.StateName {
				limit = min(limit, lent.Limit)
				if h.Strict != d.Strict {
					limit = 0
				}
			}
		}
		room[i] = limit - own[i]
		for _, l := range h.Lent {
			if n, known := l.counts(pair.StateName, d.Strict); known {
				room[i] -= n
			} else {
				room[i] = min(room[i], 0)
			}
		}
	}
	return room
}

// counts returns the most units of a state that the shard may have in use. They are not known if
// they are to be counted in full and Out counts them by weight: what was admitted long ago weighs
// little by now.
func (l *Lent) counts(s lease.StateName, strict bool) (units int64, known bool) {
	i := slices.IndexFunc(l.Out, func(u lease.Units) bool { return u.StateName == s })
	if i < 0 {
		return 0, true
	}
	return l.Out[i].N, !strict || l.Strict || s.Buckets == 0
}

// mayHave reports whether the shard may have units of a state in use.
func (l *Lent) mayHave(s lease.StateName, strict bool) bool {
	units, known := l.counts(s, strict)
	return units > 0 || !known
}

// missingRecalls returns the recalls that the home needs before it may deny the rest of a
// demand: one for each shard that uses up room or whose lease lowers the limit, unless it
// was heard from since the demand arrived or is unreachable.
func (h *Home) missingRecalls(rules lease.Rules, clock int64, d *lease.Demand, reports []lease.Report,
	unreachable []int) []lease.Recall {
	var recalls []lease.Recall
	matches := d.Matches(h.Pairs, h.Strict)
	for _, l := range h.Lent {
		counts := slices.ContainsFunc(d.Pairs, func(p lease.Pair) bool { return l.mayHave(p.StateName, d.Strict) })
		heard := slices.ContainsFunc(reports, func(r lease.Report) bool {
			return r.Shard == l.Shard && r.Seq >= l.Seq && !r.Stale
		})
		if heard || slices.Contains(unreachable, l.Shard) || !counts && (matches || !l.live(rules, clock)) {
			continue
		}
		r := lease.Recall{Shard: l.Shard, Seq: l.Seq, EndLease: !matches, Strict: d.Strict}
		for _, out := range l.Out {
			r.States = append(r.States, out.StateName)
		}
		recalls = append(recalls, r)
	}
	return recalls
}

// scarce is the fraction of a limit, 1/scarce, below which the home does not lend room.
// Near the limit it would only have to recall it again, and a loan makes the recalls under
// way useless.
const scarce = 32

// lend lends the shard that refused an equal share of the room, in addition to what it may
// have in use already. The home keeps one share for itself. lend returns nil if a loan would
// be of no use or must not be made.
func (h *Home) lend(rules lease.Rules, clock int64, q *lease.HomeRequest, room []int64) *lease.Loan {
	if h.Shards < 2 || clock < h.NoLendingUntil {
		return nil
	}
	d, i := q.Demand, h.find(q.Refusal.Shard)
	l := Lent{Shard: q.Refusal.Shard}
	if i >= 0 {
		l = h.Lent[i]
		if q.Refusal.Incarnation != l.Incarnation || q.Refusal.Seq != l.Seq && clock < l.Seq/1000+rules.Grace {
			return nil // The shard lost its memory, or another proxy's loan is on its way.
		}
	}
	loan := &lease.Loan{Shard: l.Shard, Seq: max(h.Seq+1, q.Refusal.Seq+1, clock*1000), Pairs: d.Pairs,
		Strict: d.Strict,
		Clock:  q.Refusal.Clock, Incarnation: q.Refusal.Incarnation}
	more := false
	for j, pair := range d.Pairs {
		share := room[j] / int64(h.Shards)
		if room[j] < pair.Limit/scarce {
			share = 0 // The loan may still renew the lease.
		}
		has, _ := l.counts(pair.StateName, d.Strict) // it is known, since there is room
		if has+share < d.Cost {
			return nil // Too little for a single request.
		}
		more = more || share > 0
		loan.Held = append(loan.Held, has+share)
		loan.Headroom = append(loan.Headroom, room[j]-share)
	}
	if !more && !q.Refusal.LeaseEnded {
		return nil // The shard has a live lease on as many units already.
	}
	out := make([]lease.Units, 0, len(d.Pairs))
	for j, pair := range d.Pairs {
		out = append(out, lease.Units{StateName: pair.StateName, N: loan.Held[j]})
	}
	for _, u := range l.Out { // What the shard used of other states still counts.
		if _, known := l.counts(u.StateName, d.Strict); !known {
			return nil
		}
		if l.mayHave(u.StateName, true) &&
			!slices.ContainsFunc(out, func(o lease.Units) bool { return o.StateName == u.StateName }) {
			out = append(out, u)
		}
	}
	lent := Lent{Shard: l.Shard, Seq: loan.Seq, Incarnation: loan.Incarnation, Strict: d.Strict, Out: out}
	if i >= 0 {
		h.Lent[i] = lent
	} else {
		h.Lent = append(h.Lent, lent)
	}
	h.Pairs, h.Strict, h.Seq = d.Pairs, d.Strict, loan.Seq
	return loan
}

// find returns the index in Lent of the shard, or -1.
func (h *Home) find(shard int) int {
	return slices.IndexFunc(h.Lent, func(l Lent) bool { return l.Shard == shard })
}

// Recalls returns the recalls of a reset, one for each shard that may have units in use.
func (h *Home) Recalls(rules lease.Rules, clock int64) []lease.Recall {
	h.expire(rules, clock)
	var recalls []lease.Recall
	for _, l := range h.Lent {
		recalls = append(recalls, lease.Recall{Shard: l.Shard, Seq: l.Seq, EndLease: true})
	}
	return recalls
}

// Reset ends a reset. The caller deletes the home's own use. Shards that have forgotten
// theirs no longer count. A shard that was unreachable, or to which the home has lent since,
// still does. If no such shard is left, the caller may delete the home's record.
func (h *Home) Reset(reports []lease.Report) {
	h.Lent = slices.DeleteFunc(h.Lent, func(l Lent) bool {
		return slices.ContainsFunc(reports, func(r lease.Report) bool {
			return r.Shard == l.Shard && !r.Stale && r.Seq >= l.Seq
		})
	})
	if len(h.Lent) == 0 {
		*h = Home{Shards: h.Shards}
	}
}
