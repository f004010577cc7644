package hold

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Admission is the answer to a request with an id. With an error, only Lapsed is set.
type Admission struct {
	limit.Decision
	Again  bool  // the id is known
	Lapsed int64 // lapsed holds that the request removed, see Book.Lapse
}

// Resources has the functions by which a Book asks its engine for memory, and to charge.
type Resources struct {
	// accounts for an id and a hold, and the hold's windows; with an error, nothing is held
	Grow   func(bytes int64) error
	Charge func() error // charges the request, for ONCE; with an error, nothing was charged
}

// Admit answers a request with a Hold and a cost. A known id gets its first answer again, except that a lease of
// RL.ACQUIRE is renewed.
func (b *Book) Admit(st States, clock, now int64, r *engine.Request, resources Resources) (a Admission, err error) {
	e := &rememberedID{idName: nameOf(r)}
	if known := b.ids.find(e.idName, now); known != nil {
		if known.class != slots {
			return Admission{Decision: known.answer, Again: true}, nil
		}
		if a, ok := b.renewKnown(st, clock, now, known, r); ok {
			return a, nil
		}
	}
	var us [limit.MaxWindows]limit.Usage
	granted, err := b.Ask(st, clock, now, &r.Spec, &us, func() error {
		if err := b.bound(now, e.class, &r.Spec); err != nil {
			return err
		}
		if err := resources.Grow(mapBytes + entryBytes + holdBytes + int64(r.N)*(limitBytes+cellBytes)); err != nil {
			return err
		}
		a.Lapsed = b.Lapse(st, now)
		if e.class == once {
			return resources.Charge()
		}
		e.hold = b.addHold(now, r)
		return nil
	})
	if err != nil {
		return a, err
	}
	if granted > 0 {
		b.Complete(st, clock, now, &r.Spec, &us)
		for i, w := range r.Limits() {
			if both := b.window(st, &r.Spec, w); r.Hold.MultiKey && both.Cells != nil && r.Kind != limit.Slide {
				us[i].Empty = both.EmptyIfCharged(now, &r.Spec) - clock // they are charged at once
			}
		}
	}
	a.Decision = r.Decide(us[:r.N], clock, granted, 0)
	if granted > 0 {
		e.answer = a.Decision
		e.until = now + r.Longest() + 1 // as long as RL.SLIDE counts it
		if e.hold != nil {
			e.until = e.hold.at
		}
		b.ids.put(now, e)
	}
	return a, nil
}

func nameOf(r *engine.Request) idName {
	n := idName{reservation, r.Hold.ID}
	switch {
	case r.Hold.Once:
		n.class = once
	case r.Kind == limit.Concurrency:
		n.class = slots
	}
	return n
}

// bound returns the error of a request that would exceed a bound of one key's holds or ids.
func (b *Book) bound(now int64, c class, s *limit.Spec) error {
	for more := true; more && b.ids.counts[c] >= engine.MaxIDs; { // expired ids of other classes may come first
		more = b.ids.forget(now, forgetAtOnce)
	}
	if c == once {
		if b.ids.counts[once] >= engine.MaxIDs {
			return engine.ErrIDs
		}
		return nil
	}
	most, exceeded := int64(engine.MaxHolds), error(engine.ErrHolds)
	if c == slots {
		most, exceeded = engine.MaxSlotHolds, engine.ErrSlotHolds
	} else if b.ids.counts[reservation] >= engine.MaxIDs {
		return exceeded
	}
	for _, w := range s.Limits() {
		if held := b.findWindow(s, w.Length); held != nil {
			if _, holds := held.Held(now); holds >= most {
				return exceeded
			}
		}
	}
	return nil
}

// addHold holds the cost of r in all of its windows.
func (b *Book) addHold(now int64, r *engine.Request) *holdRecord {
	h := &holdRecord{
		at: Deadline(now, r.Hold.TTL, b.crowded(&r.Spec)), units: r.Cost, ttl: r.Hold.TTL,
		release: r.Hold.Release || !r.Kind.Additive(), // others cannot be charged as of a past deadline
		kind:    r.Kind, buckets: r.Param, windows: slices.Clone(r.Limits()),
	}
	if !r.Hold.MultiKey { // which is charged in the window in which it was admitted
		h.at = min(h.at, r.CalendarEnd())
	}
	for _, w := range h.windows {
		to := b.findWindow(&r.Spec, w.Length)
		if to == nil {
			to = &heldWindow{kind: r.Kind, length: w.Length, buckets: r.Param}
			b.windows = append(b.windows, to)
		}
		to.Add(now, w.Limit, h.at, h.units, h.release)
	}
	return h
}

// renewKnown renews a lease that is requested again, with the units it has, and reports whether it could.
func (b *Book) renewKnown(st States, clock, now int64, e *rememberedID, r *engine.Request) (a Admission, ok bool) {
	if a.Lapsed, ok = b.renew(st, now, e, r.Hold.TTL, r.Windows[0].Limit); !ok {
		return a, false
	}
	w := r.Windows[0]
	both := b.window(st, &r.Spec, w)
	free := max(w.Limit-both.Read(now, &r.Spec).Used, 0)
	a.Decision = limit.Decision{Allowed: true, Limit: w.Limit, Remaining: free, ResetAfter: both.EmptyAt(now,
		&r.Spec) - clock}
	a.Again = true
	return a, true
}
