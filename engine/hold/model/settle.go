package model

import (
	"cmp"
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

// lapse charges or forgets lapsed units, and returns the most lapsed holds of one window.
func (k *Key) lapse(now int64) (most int64) {
	var out []*hold
	counts := map[window]int64{}
	for _, h := range k.holds {
		if now >= h.deadline {
			out = append(out, h)
		}
	}
	if out == nil {
		return 0
	}
	slices.SortStableFunc(out, func(a, b *hold) int { return cmp.Compare(a.deadline, b.deadline) })
	for _, h := range out {
		for _, w := range h.windows {
			of := windowOf(h.kind, h.buckets, w)
			counts[of]++
			most = max(most, counts[of])
		}
		under := *h
		under.windows = slices.Clone(h.windows)
		for i, w := range under.windows {
			under.windows[i].Limit = k.last[windowOf(h.kind, h.buckets, w)].limit
		}
		if !h.release {
			k.charge(h.deadline, &under, h.units, 0)
		}
		k.end(h)
	}
	return most
}

// end removes a hold from the list.
func (k *Key) end(h *hold) {
	k.holds = slices.DeleteFunc(k.holds, func(o *hold) bool { return o == h })
	for _, w := range h.windows {
		of := windowOf(h.kind, h.buckets, w)
		if !slices.ContainsFunc(k.holds, func(o *hold) bool { return o.has(of) }) {
			delete(k.last, of)
		}
	}
}

// charge charges units in the windows of h; over of them were admitted by no limit.
func (k *Key) charge(at int64, h *hold, units, over int64) {
	k.newest = max(k.newest, at)
	for _, w := range h.windows {
		of := windowOf(h.kind, h.buckets, w)
		t := at
		if of.kind == limit.Slide {
			t = grid(at, w.Limit, w.Length)
			for _, c := range k.charges {
				if c.window == of {
					t = max(t, c.t)
				}
			}
		}
		same := slices.IndexFunc(k.charges, func(c charge) bool { return c.window == of && c.at == at && c.t == t })
		if same < 0 {
			k.charges = append(k.charges, charge{of, at, t, units, over})
			continue
		}
		k.charges[same].units += units
		k.charges[same].over += over
	}
	// Charges that can no longer matter are dropped, or a run would take a day.
	k.charges = slices.DeleteFunc(k.charges, func(c charge) bool { return c.t+2*c.length+1 < at })
}
