package model

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Settle ends a hold and charges cost, or returns an error if a window cannot count so much.
func (k *Key) Settle(clock int64, kind limit.Kind, id engine.Digest, cost int64) (done engine.Settlement, lapsed int64, err error) {
	now := k.ms(clock, true)
	h := k.find(now, class(kind, false), id)
	switch {
	case h == nil:
		return done, 0, nil
	case h.settled && h.result.Charged == cost:
		return h.result, 0, nil
	case h.settled || !slices.Contains(k.holds, h):
		return done, 0, nil
	}
	if h.class == "slots" {
		cost = 0
	}
	over := max(cost-h.units, 0)
	if over > 0 {
		s := h.spec
		s.Manner = 0
		for i := range s.N {
			if k.used(&s, i, now*1000)+over > engine.MaxCount(s.Kind) {
				return done, 0, engine.ErrOverrun
			}
		}
	}
	lapsed = k.lapse(now)
	if cost > 0 {
		k.charge(k.now(clock, &h.spec, true), h, cost, over)
	}
	k.end(h)
	h.settled, h.until = true, rounded(now, h.ttl, 64)
	done = engine.Settlement{Settled: true, Charged: cost, Returned: max(h.units-cost, 0), Overrun: over}
	h.result = done
	h.result.Again = true
	if h.class == "slots" {
		h.until = now
	}
	k.know(now, h)
	return done, lapsed, nil
}

// Renew extends a lease from now on.
func (k *Key) Renew(clock int64, id engine.Digest, ttl int64) (renewed bool, lapsed int64) {
	now := k.ms(clock, true)
	h := k.find(now, "slots", id)
	if h == nil || !slices.Contains(k.holds, h) {
		return false, 0
	}
	return true, k.move(now, h, ttl, h.spec.Windows[0].Limit)
}

func (k *Key) move(now int64, h *hold, ttl, slots int64) (lapsed int64) {
	lapsed = k.lapse(now)
	of := windowOf(&h.spec, h.spec.Windows[0])
	h.spec.Windows[0].Limit = slots
	h.ttl, h.deadline = ttl, k.deadline(now, ttl, &h.spec)
	h.until = h.deadline
	k.last[of] = held{max(now, k.last[of].at), slots}
	k.know(now, h)
	return lapsed
}

// lapse charges or forgets lapsed units, and returns the most lapsed holds of one window.
func (k *Key) lapse(now int64) (most int64) {
	counts := map[Window]int64{}
	for _, h := range k.lapsedAt(now * 1000) {
		under := *h
		for i, w := range h.windows() {
			of := windowOf(&h.spec, w)
			counts[of]++
			most = max(most, counts[of])
			under.spec.Windows[i].Limit = k.last[of].limit
		}
		if !h.release {
			k.charge(h.deadline*1000, &under, h.units, 0)
		}
		k.end(h)
	}
	return most
}

// end removes a hold from the list.
func (k *Key) end(h *hold) {
	k.holds = slices.DeleteFunc(k.holds, func(o *hold) bool { return o == h })
	for _, w := range h.windows() {
		of := windowOf(&h.spec, w)
		if !slices.ContainsFunc(k.holds, func(o *hold) bool { return o.has(of) }) {
			delete(k.last, of)
		}
	}
}

// charge charges units in the windows of h at a us; over of them were admitted by no limit.
func (k *Key) charge(us int64, h *hold, units, over int64) {
	k.newest = max(k.newest, us/1000)
	for _, w := range h.windows() {
		of := windowOf(&h.spec, w)
		s := k.states[of]
		if s == nil {
			s = &state{calls: map[int64]int64{}}
			k.states[of] = s
		}
		s.charge(of, Charge{At: us, Units: units, Limit: w.Limit, Manner: h.spec.Manner, over: over, drawn: k.drawing})
	}
}

func (s *state) charge(of Window, c Charge) {
	// Charges that can no longer matter are dropped, or a run would take a day: what drains goes on from older charges.
	ended := func(all []Charge) bool {
		return Used(of, of.later(all, c.At), c.At, limit.Strict) == 0 &&
			!slices.ContainsFunc(all, func(o Charge) bool { return o.drawnSince(c.At - unknown*1000) })
	}
	if Used(of, s.charges, c.At, limit.Strict) == 0 {
		s.since = c.At / 1000
	}
	if ended(s.charges) {
		s.charges = nil
	}
	for !references[of.Kind].drains && len(s.charges) > 0 && ended(s.charges[:1]) {
		s.charges = s.charges[1:]
	}
	s.limit, s.last = c.Limit, max(s.last, c.At/1000)
	s.calls[s.last/1000]++
	if i := len(s.charges) - 1; i >= 0 && s.charges[i].alike(&c) {
		s.charges[i].Units += c.Units
		s.charges[i].over += c.over
		return
	}
	s.charges = append(s.charges, c)
}
