package shard

import "slices"

// Home is what the key's home keeps beside its own use of the windows.
type Home struct {
	Parts  int    // in the layout, the home included; below 2 nothing is lent
	Pairs  []Pair // whom the leases serve that are live
	Strict bool
	Lent   []Lent // at most one a part
	Seq    int64  // of the newest loan to any part
	Calm   int64  // ms; nothing is lent before
}

// Lent is what a part may hold, in the home's eyes.
type Lent struct {
	Part   int
	Seq    int64 // of the newest loan: home's clock in ms when it was made, times 1000, or more
	Born   int64 // of the record of the part that it went to
	Over   bool  // reported: the lease has ended, what is counted was used
	Strict bool  // how Out is counted
	Out    []Units
}

// Answer is the home's: so many were granted, and either the rest is denied or
// parts must be read first. The Loan, if there is one, goes to the part that missed.
type Answer struct {
	Granted int64
	Recall  []Recall // not empty: the rest is not decided yet
	Loan    *Loan
}

// Question is what a proxy asks the home: an Ask, and what it has heard from parts
// since the ask arrived.
type Question struct {
	Ask     *Ask
	Miss    *Miss // of the part that was asked first, to be lent to
	Reports []Report
	Away    []int // parts that were recalled and cannot be reached
}

// Decide answers a question. own is the home's own use, by pair of the ask; the
// caller charges Granted times the cost to it. clock is the home's, in ms. A denial
// changes nothing but what was reported.
func (h *Home) Decide(rules Rules, clock int64, q *Question, own []int64) Answer {
	h.lapse(rules, clock)
	reports := q.Reports
	if m := q.Miss; m != nil && m.Over {
		reports = append(slices.Clip(reports),
			Report{Part: m.Part, Seq: m.Seq, Born: m.Born, Over: true, Strict: q.Ask.Strict, Used: m.Used})
	}
	for i := range reports {
		h.collect(&reports[i])
	}
	others := h.otherLeases(rules, clock, q.Ask)
	room := h.room(q.Ask, own, others)
	granted := q.Ask.fit(slices.Min(room))
	if granted < q.Ask.N {
		recalls := h.unread(rules, clock, q.Ask, reports, q.Away)
		if len(recalls) > 0 && len(q.Reports) > 0 {
			h.Calm = clock + rules.Lease/4 // parts were lent to while they were read: let the next reading be the last
		}
		return Answer{Granted: granted, Recall: recalls}
	}
	for i := range room {
		room[i] -= granted * q.Ask.Cost
	}
	answer := Answer{Granted: granted}
	if q.Miss != nil && !others {
		answer.Loan = h.lend(rules, clock, q, room)
	}
	return answer
}

// lapse forgets what no part can use any more: a loan is used, at the latest, a lease
// after it was made, and a unit counts for its life after that.
func (h *Home) lapse(rules Rules, clock int64) {
	h.Lent = slices.DeleteFunc(h.Lent, func(l Lent) bool {
		for i := range l.Out {
			if clock > l.Seq/1000+rules.Lease+l.Out[i].Life() {
				l.Out[i].N = 0
			}
		}
		return !slices.ContainsFunc(l.Out, func(u Units) bool { return u.N > 0 })
	})
}

// collect takes a report if no loan was made since it was asked for. Reports of one
// loan may come in any order: each bounds what the part has in use from then on.
func (h *Home) collect(r *Report) {
	i := h.find(r.Part)
	if i < 0 || r.Stale || r.Seq < h.Lent[i].Seq || r.Born != h.Lent[i].Born {
		return
	}
	l := &h.Lent[i]
	l.Over = l.Over || r.Over
	if r.Strict != l.Strict && !r.covers(l.Out) {
		return // some states would be counted otherwise than the record says
	}
	for _, used := range r.Used {
		for j := range l.Out {
			if out := &l.Out[j]; out.State == used.State && (used.N < out.N || r.Strict != l.Strict) {
				out.N = used.N
			}
		}
	}
	l.Strict = r.Strict
}

// covers tells whether the report speaks of all these states.
func (r *Report) covers(out []Units) bool {
	return !slices.ContainsFunc(out, func(o Units) bool {
		return !slices.ContainsFunc(r.Used, func(u Units) bool { return u.State == o.State })
	})
}

// live tells whether the part may still admit out of its loan.
func (l *Lent) live(rules Rules, clock int64) bool {
	return !l.Over && clock <= l.Seq/1000+rules.Lease
}

// otherLeases tells whether a part may be admitting other requests than these.
func (h *Home) otherLeases(rules Rules, clock int64, a *Ask) bool {
	return !a.Same(h.Pairs, h.Strict) &&
		slices.ContainsFunc(h.Lent, func(l Lent) bool { return l.live(rules, clock) })
}

// room returns, by pair, what is left of the limit. While leases serve other limits
// over the same state, those limits hold here too: a part must find room for its own
// callers. Leases that count otherwise leave no room at all until they are recalled.
func (h *Home) room(a *Ask, own []int64, others bool) []int64 {
	room := make([]int64, len(a.Pairs))
	for i, pair := range a.Pairs {
		limit := pair.Limit
		for _, lent := range h.Pairs {
			if others && lent.State == pair.State {
				limit = min(limit, lent.Limit)
				if h.Strict != a.Strict {
					limit = 0
				}
			}
		}
		room[i] = limit - own[i]
		for _, l := range h.Lent {
			room[i] -= l.counts(pair.State, a.Strict)
		}
	}
	return room
}

// counts returns what the part may have in use of a state. Held by weight, a part may
// have twice that in use when its oldest sub-window counts in full.
func (l *Lent) counts(s State, strict bool) int64 {
	for _, out := range l.Out {
		if out.State == s {
			if strict && !l.Strict {
				return 2 * out.N
			}
			return out.N
		}
	}
	return 0
}

// unread returns the recalls that are still needed before the rest of an ask may be
// denied: of every part that counts against it, or holds its limit down, and was not
// read since the ask arrived, nor found away.
func (h *Home) unread(rules Rules, clock int64, a *Ask, reports []Report, away []int) []Recall {
	var recalls []Recall
	same := a.Same(h.Pairs, h.Strict)
	for _, l := range h.Lent {
		counts := slices.ContainsFunc(a.Pairs, func(p Pair) bool { return l.counts(p.State, a.Strict) > 0 })
		read := slices.ContainsFunc(reports, func(r Report) bool { return r.Part == l.Part && r.Seq >= l.Seq && !r.Stale })
		if read || slices.Contains(away, l.Part) || !counts && (same || !l.live(rules, clock)) {
			continue
		}
		r := Recall{Part: l.Part, Seq: l.Seq, Close: !same, Strict: a.Strict}
		for _, out := range l.Out {
			r.States = append(r.States, out.State)
		}
		recalls = append(recalls, r)
	}
	return recalls
}

// scarce is the part of a limit below which room is not lent: near the limit it would
// only be recalled again, and each loan makes readings under way worthless.
const scarce = 32

// lend lends the part that missed an even piece of the room, on top of what it has.
// The home keeps the last piece for itself.
func (h *Home) lend(rules Rules, clock int64, q *Question, room []int64) *Loan {
	if h.Parts < 2 || clock < h.Calm {
		return nil
	}
	a, i := q.Ask, h.find(q.Miss.Part)
	l := Lent{Part: q.Miss.Part}
	if i >= 0 {
		l = h.Lent[i]
		if q.Miss.Born != l.Born || q.Miss.Seq != l.Seq && clock < l.Seq/1000+rules.Grace {
			return nil // it lost what it knew, or another proxy's loan is on its way
		}
	}
	loan := &Loan{Part: l.Part, Seq: max(h.Seq+1, clock*1000), Pairs: a.Pairs, Strict: a.Strict,
		Clock: q.Miss.Clock, Born: q.Miss.Born}
	more := false
	for j, pair := range a.Pairs {
		piece := room[j] / int64(h.Parts)
		if room[j] < pair.Limit/scarce {
			piece = 0 // a lease may go on with what the part has
		}
		has := l.counts(pair.State, a.Strict)
		if has+piece < a.Cost {
			return nil // of no use
		}
		more = more || piece > 0
		loan.Held = append(loan.Held, has+piece)
		loan.Rest = append(loan.Rest, room[j]-piece)
	}
	if !more && !q.Miss.Over {
		return nil // it holds that much already
	}
	out := make([]Units, 0, len(a.Pairs))
	for j, pair := range a.Pairs {
		out = append(out, Units{pair.State, loan.Held[j]})
	}
	for _, u := range l.Out { // what it used for other pairs still counts
		if u.N > 0 && !slices.ContainsFunc(out, func(o Units) bool { return o.State == u.State }) {
			out = append(out, Units{u.State, l.counts(u.State, a.Strict)})
		}
	}
	lent := Lent{Part: l.Part, Seq: loan.Seq, Born: loan.Born, Strict: a.Strict, Out: out}
	if i >= 0 {
		h.Lent[i] = lent
	} else {
		h.Lent = append(h.Lent, lent)
	}
	h.Pairs, h.Strict, h.Seq = a.Pairs, a.Strict, loan.Seq
	return loan
}

func (h *Home) find(part int) int {
	return slices.IndexFunc(h.Lent, func(l Lent) bool { return l.Part == part })
}

// Recalls lists every part that counts: a reset tells them to forget.
func (h *Home) Recalls(rules Rules, clock int64) []Recall {
	h.lapse(rules, clock)
	var recalls []Recall
	for _, l := range h.Lent {
		recalls = append(recalls, Recall{Part: l.Part, Seq: l.Seq, Close: true})
	}
	return recalls
}

// Reset ends a reset: the caller deletes the home's own use. Parts that forgot count
// no more; one that could not be reached, or was lent to since, does. With none left
// all of the home's record may be deleted.
func (h *Home) Reset(reports []Report) {
	h.Lent = slices.DeleteFunc(h.Lent, func(l Lent) bool {
		return slices.ContainsFunc(reports, func(r Report) bool { return r.Part == l.Part && !r.Stale && r.Seq >= l.Seq })
	})
	if len(h.Lent) == 0 {
		*h = Home{Parts: h.Parts}
	}
}
