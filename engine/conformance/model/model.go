// Package model computes the behaviour of a key directly from its definition: a key is a flat list of charges and of
// holds, and every answer looks through all of them. It shares no code with the engines. Only tests import it.
//
// Reading order: model.go (this file), reference.go (what counts, by algorithm), settle.go (how holds end or last), inspect.go
// (what a key shows), drawn.go (units that were drawn from advances).
package model

import (
	"cmp"
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Key has the charges, holds and remembered ids of one key. Clocks are in us since the epoch, other times in ms.
type Key struct {
	states  map[Window]*state
	holds   []*hold // those outstanding, and lapsed ones that no write has removed
	known   []*hold // whose ids are remembered
	newest  int64   // ms of the newest charge
	changed int64   // ms of the newest change of an id
	last    map[Window]held
	largest map[Window]int64 // largest limit asked

	drawing bool                // what is charged is drawn
	undone  map[Window][]Charge // drawn so shortly before a reset that they may be charged after it
}

// state is what was charged in a window.
type state struct {
	charges []Charge
	limit   int64
	last    int64           // ms of the newest charge
	calls   map[int64]int64 // that charged, by second
	since   int64           // ms of the newest charge before which nothing counted: an engine may have forgotten the calls
}

// held has the limit and the time of the newest hold of a window.
type held struct{ at, limit int64 }

type hold struct {
	class    string
	id       engine.Digest
	until    int64 // the id is known while now < until
	units    int64
	deadline int64
	ttl      int64
	release  bool
	settled  bool
	result   engine.Settlement
	answer   limit.Decision
	spec     limit.Spec // without cost
}

func (h *hold) windows() []limit.Window { return h.spec.Limits() }

// New returns a key without anything.
func New() *Key {
	return &Key{states: map[Window]*state{}, last: map[Window]held{}, largest: map[Window]int64{}}
}

func windowOf(s *limit.Spec, w limit.Window) Window { return Window{s.Kind, w.Length, s.Param} }

func class(kind limit.Kind, once bool) string {
	switch {
	case once:
		return "once"
	case kind == limit.Concurrency:
		return "slots"
	}
	return "reservation"
}

// now returns the us by which a request at the clock is decided. ids says whether the request has an id.
func (k *Key) now(clock int64, s *limit.Spec, ids bool) int64 {
	if s.Kind.Rated() {
		return clock
	}
	return max(clock, k.ms(clock, ids)*1000)
}

// ms returns the ms by which a request at the clock is decided, unless its algorithm has a rate.
func (k *Key) ms(clock int64, ids bool) int64 {
	now := max(clock/1000, k.newest)
	for _, h := range k.last {
		now = max(now, h.at)
	}
	if ids {
		now = max(now, k.changed)
	}
	return now
}

// Changed returns the ms of the newest change of an id. What an engine knows of it is forgotten with the last id.
func (k *Key) Changed() int64 { return k.changed }

// deadline returns when a hold in some windows lapses: steps of a power of two, at most a 64th of the TTL. If a window has 160
// deadlines or more, at most an eighth.
func (k *Key) deadline(now, ttl int64, s *limit.Spec) int64 {
	part := int64(64)
	for _, w := range s.Limits() {
		deadlines := map[int64]bool{}
		for _, h := range k.holds {
			if h.has(windowOf(s, w)) {
				deadlines[h.deadline] = true
			}
		}
		if len(deadlines) >= 160 {
			part = 8
		}
	}
	return rounded(now, ttl, part)
}

// rounded returns a time in ttl ms, rounded up to steps of a power of two that are at most one part of so many of the TTL.
func rounded(now, ttl, part int64) int64 {
	step := int64(1)
	for step*2*part <= ttl {
		step *= 2
	}
	return int64(math.Ceil(float64(now+ttl)/float64(step))) * step
}

// charged returns the units charged that count at a us in a window.
func (k *Key) charged(of Window, us, manner int64) int64 {
	var all []Charge
	if st := k.states[of]; st != nil {
		all = st.charges[:len(st.charges):len(st.charges)]
	}
	for _, h := range k.lapsedAt(us) { // and not taken
		if !h.release && h.has(of) {
			all = append(all, Charge{At: h.deadline * 1000, Units: h.units, Limit: k.last[of].limit})
		}
	}
	return Used(of, all, us, manner)
}

// lapsedAt returns the holds that have lapsed at a us, in the order in which they did.
func (k *Key) lapsedAt(us int64) (out []*hold) {
	for _, h := range k.holds {
		if us/1000 >= h.deadline {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b *hold) int { return cmp.Compare(a.deadline, b.deadline) })
	return out
}

// held returns the units held at a us in a window, and the number of their holds.
func (k *Key) held(of Window, us int64) (units, holds int64) {
	for _, h := range k.holds {
		if us/1000 < h.deadline && h.has(of) {
			units += h.units
			holds++
		}
	}
	return units, holds
}

func (h *hold) has(of Window) bool {
	return slices.ContainsFunc(h.windows(), func(w limit.Window) bool { return windowOf(&h.spec, w) == of })
}

func (k *Key) used(s *limit.Spec, i int, us int64) int64 {
	of := windowOf(s, s.Windows[i])
	units, _ := k.held(of, us)
	return k.charged(of, us, s.Manner) + units
}

// Fits reports whether window i of s has room for one more request at the clock. Without cost, that is a request of cost
// 1, but of a rate one without.
func (k *Key) Fits(clock int64, s *limit.Spec, i int, ids bool) bool {
	wanted := s.Cost
	if !s.Kind.Rated() {
		wanted = max(wanted, 1)
	}
	return k.used(s, i, k.now(clock, s, ids))+wanted <= s.Windows[i].Limit
}

// Admits reports whether all windows have room.
func (k *Key) Admits(clock int64, s *limit.Spec, ids bool) bool {
	for i := range s.N {
		if !k.Fits(clock, s, i, ids) {
			return false
		}
	}
	return true
}

// find returns what is known of an id.
func (k *Key) find(now int64, class string, id engine.Digest) *hold {
	for _, h := range k.known {
		if h.class == class && h.id == id && now < h.until {
			return h
		}
	}
	return nil
}

// Answer is the answer to a decision.
type Answer struct {
	limit.Decision
	Again  bool
	Lapsed int64
}

// Decide answers a decision, with a hold or without, and charges or holds it.
func (k *Key) Decide(clock int64, s *limit.Spec, with *engine.Hold) (a Answer) {
	if s.Cost == 0 {
		with = nil
	}
	now := k.ms(clock, with != nil)
	if with != nil {
		if h := k.find(now, class(s.Kind, with.Once), with.ID); h != nil && h.class != "slots" {
			return Answer{Decision: h.answer, Again: true}
		} else if h != nil {
			a.Again = true
			a.Lapsed = k.move(now, h, with.TTL, s.Windows[0].Limit)
			a.Decision = k.describe(clock, s, 0, true, true)
			return a
		}
	}
	a.Allowed = k.Admits(clock, s, with != nil)
	if !a.Allowed {
		for i := range s.N {
			if k.Fits(clock, s, i, with != nil) {
				continue
			}
			if d := k.describe(clock, s, i, false, with != nil); d.RetryAfter > a.RetryAfter || a.Limit == 0 {
				a.Decision = d
			}
		}
		return a
	}
	h := &hold{spec: *s, units: s.Cost}
	for _, w := range h.windows() {
		of := windowOf(s, w)
		k.largest[of] = max(k.largest[of], w.Limit)
	}
	switch {
	case s.Cost == 0:
	case s.Kind.Rated(): // it has nothing to do with what is held
		k.charge(clock, h, s.Cost, 0)
	case with == nil || with.Once:
		a.Lapsed = k.lapse(now)
		k.charge(k.now(clock, s, with != nil), h, s.Cost, 0)
	default:
		a.Lapsed = k.lapse(now)
		h.ttl, h.deadline = with.TTL, k.deadline(now, with.TTL, s)
		for _, w := range h.windows() { // the hold ends with a calendar window
			if period, _ := w.Calendar(); period != "" && !with.MultiKey {
				h.deadline = min(h.deadline, w.EndsAt(0))
			}
		}
		h.release = with.Release || !s.Kind.Additive()
		k.holds = append(k.holds, h)
		for _, w := range h.windows() {
			k.last[windowOf(s, w)] = held{now, w.Limit}
		}
	}
	a.Decision = k.describe(clock, s, 0, true, with != nil)
	for i := 1; i < s.N; i++ {
		if d := k.describe(clock, s, i, true, with != nil); d.Remaining < a.Remaining {
			a.Decision = d
		}
	}
	if with != nil {
		h.class, h.id, h.answer = class(s.Kind, with.Once), with.ID, a.Decision
		h.until = h.deadline
		if with.Once {
			h.until = 0
			for _, w := range h.windows() {
				h.until = max(h.until, now+w.Ms()+1)
			}
		}
		k.know(now, h)
	}
	return a
}

// Peek returns the decision that describes the windows of s without a request: that of the window with the least remaining.
func (k *Key) Peek(clock int64, s *limit.Spec) (d limit.Decision) {
	for i := range s.N {
		if w := k.describe(clock, s, i, true, false); i == 0 || w.Remaining < d.Remaining {
			d = w
		}
	}
	return d
}

// know remembers an id, and forgets those that have ended.
func (k *Key) know(now int64, h *hold) {
	k.changed = max(k.changed, now)
	k.known = slices.DeleteFunc(k.known, func(o *hold) bool { return o == h || o.until <= now })
	k.known = append(k.known, h)
}

// describe returns the decision that describes one window as it is now.
func (k *Key) describe(clock int64, s *limit.Spec, i int, allowed, ids bool) limit.Decision {
	w, now := s.Windows[i], k.now(clock, s, ids)
	d := limit.Decision{Allowed: allowed, Window: i, Limit: w.Limit, Remaining: max(w.Limit-k.used(s, i, now), 0)}
	if down := references[s.Kind].down; down != nil {
		all := []Charge(nil)
		if st := k.states[windowOf(s, w)]; st != nil {
			all = st.charges
		}
		switch {
		case allowed:
		case s.Cost > w.Limit:
			d.RetryAfter = -1 // waiting never helps
		default:
			d.RetryAfter = down(all, now, w.Limit-s.Cost, s.Manner)
		}
		d.ResetAfter = down(all, now, 0, s.Manner)
		return d
	}
	if !allowed {
		d.RetryAfter = smallest(1, func(ms int64) bool { return k.Fits(clock+ms*1000, s, i, ids) })
	}
	d.ResetAfter = smallest(0, func(ms int64) bool { return k.used(s, i, k.now(clock+ms*1000, s, ids)) == 0 })
	return d
}

// smallest returns the smallest r >= from for which a condition is true that stays true for all larger r.
func smallest(from int64, holds func(r int64) bool) int64 {
	fails, step := from-1, int64(1)
	for !holds(fails + step) {
		if step > 1<<50 {
			panic("the condition never becomes true")
		}
		fails += step
		step *= 2
	}
	for at := fails + step; ; {
		if at-fails == 1 {
			return at
		}
		if mid := (fails + at) / 2; holds(mid) {
			at = mid
		} else {
			fails = mid
		}
	}
}
