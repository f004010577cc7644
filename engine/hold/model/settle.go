package model

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Settle ends a hold and charges cost, or returns an error if a window cannot count so much.
func (k *Key) Settle(clock int64, kind limit.Kind, id engine.Digest, cost int64) (done engine.Settlement, lapsed int64, err error) {
	now := k.Now(clock, true)
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
		s := limit.Spec{Kind: h.kind, Param: h.buckets, N: len(h.windows)}
		copy(s.Windows[:], h.windows)
		for i := range h.windows {
			if k.used(&s, i, now)+over > engine.MaxCount(h.kind) {
				return done, 0, engine.ErrOverrun
			}
		}
	}
	lapsed = k.lapse(now)
	if cost > 0 {
		k.charge(now, h, cost, over)
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
	now := k.Now(clock, true)
	h := k.find(now, "slots", id)
	if h == nil || !slices.Contains(k.holds, h) {
		return false, 0
	}
	return true, k.move(now, h, ttl, h.windows[0].Limit)
}

func (k *Key) move(now int64, h *hold, ttl, slots int64) (lapsed int64) {
	lapsed = k.lapse(now)
	of := windowOf(h.kind, h.buckets, h.windows[0])
	h.windows[0].Limit = slots
	h.ttl, h.deadline = ttl, k.deadline(now, ttl, h.kind, h.buckets, h.windows)
	h.until = h.deadline
	k.last[of] = held{max(now, k.last[of].at), slots}
	k.know(now, h)
	return lapsed
}
