package hold

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Settle ends a hold and charges the cost of r in its windows, or ends a lease of RL.ACQUIRE. A hold that is unknown,
// has lapsed, or was settled with another cost is not settled. lapsed is the number of lapsed holds that Settle
// removed.
func (b *Book) Settle(st States, now int64, r *engine.Request) (done engine.Settlement, lapsed int64, err error) {
	e := b.ids.find(nameOf(r), now)
	if e == nil {
		return done, 0, nil
	}
	h, cost := e.hold, r.Cost
	if e.class == slots {
		cost = 0
	}
	if h.settled {
		if h.result.Charged == cost {
			done = h.result
		}
		return done, 0, nil
	}
	s := h.spec()
	if !b.has(&s, h) {
		return done, 0, nil
	}
	if cost > h.units {
		for _, w := range h.windows {
			both := b.window(st, &s, w)
			if both.Read(now, &s).Used-h.units+cost > engine.MaxCount(s.Kind) {
				return done, 0, engine.ErrOverrun
			}
		}
	}
	lapsed = b.Lapse(st, now)
	s.Cost = cost
	for _, w := range h.windows {
		b.findWindow(&s, w.Length).Remove(h.at, h.units, h.release)
		if cost > 0 {
			st.Charge(now, &s, w)
		}
	}
	b.tidy()
	h.settled = true
	done = engine.Settlement{Settled: true, Charged: cost, Returned: max(h.units-cost, 0),
		Overrun: max(cost-h.units, 0)}
	h.result = done
	h.result.Again = true // of an equal request after this one
	until := Deadline(now, h.ttl, false)
	if e.class == slots {
		until = now // the id is forgotten at once
	}
	b.ids.keep(now, e, until)
	b.ids.touch(now)
	return done, lapsed, nil
}

// Renew extends a lease of RL.ACQUIRE to the TTL of r from now, and reports whether the lease still existed.
func (b *Book) Renew(st States, now int64, r *engine.Request) (renewed bool, lapsed int64) {
	e := b.ids.find(idName{slots, r.Hold.ID}, now)
	if e == nil {
		return false, 0
	}
	lapsed, renewed = b.renew(st, now, e, r.Hold.TTL, e.hold.windows[0].Limit)
	return renewed, lapsed
}

// renew moves the deadline of a lease and sets its limit to under. It reports whether the lease still existed.
func (b *Book) renew(st States, now int64, e *rememberedID, ttl, under int64) (lapsed int64, ok bool) {
	h, s := e.hold, e.hold.spec()
	if !b.has(&s, h) {
		return 0, false
	}
	lapsed = b.Lapse(st, now)
	from := h.at
	h.at, h.ttl, h.windows[0].Limit = Deadline(now, ttl, b.crowded(&s)), ttl, under
	for _, w := range h.windows {
		cells := b.findWindow(&s, w.Length)
		cells.Remove(from, h.units, h.release)
		cells.Add(now, under, h.at, h.units, h.release)
	}
	b.ids.keep(now, e, h.at)
	b.ids.touch(now)
	return lapsed, true
}

// has reports whether all windows of a hold have its units.
func (b *Book) has(s *limit.Spec, h *holdRecord) bool {
	for _, w := range h.windows {
		if cells := b.findWindow(s, w.Length); cells == nil || !cells.Has(h.at, h.units, h.release) {
			return false
		}
	}
	return true
}
