package model

import (
	"cmp"
	"slices"

	"github.com/rlproxy/rlproxy/engine/limit"
)

// Late is by how many ms a node may date later what a proxy drew from an advance: a grid of a 16th of the usual 250 ms,
// and a ms by which its clock may be ahead.
const Late = 250/16 + 1

// unknown is for how many ms at most a node does not know what was drawn. A bucket to which the node charges something
// meanwhile counts it as if the bucket had not been full since.
const unknown = 250

// Draw is Decide for a request that was admitted from an advance.
func (k *Key) Draw(clock int64, s *limit.Spec) Answer {
	k.drawing = true
	defer func() { k.drawing = false }()
	return k.Decide(clock, s, nil)
}

// later returns charges of a window, with those that were drawn dated as late as a node may date them at a us.
func (w Window) later(all []Charge, us int64) []Charge {
	if !slices.ContainsFunc(all, func(c Charge) bool { return c.drawn }) {
		return all
	}
	all = slices.Clone(all)
	for i, c := range all {
		if !c.drawn {
			continue
		}
		at := c.At + Late*1000
		for _, o := range all[i+1:] {
			if w.Kind == limit.Bucket && (!o.drawn || o.Limit != c.Limit) && o.At <= c.At+unknown*1000 {
				at = max(at, o.At)
			}
		}
		all[i].At = max(c.At, min(at, us))
	}
	slices.SortStableFunc(all, func(a, b Charge) int { return cmp.Compare(a.At, b.At) })
	return all
}

// drawnSince reports whether a charge was drawn at a us or later.
func (c Charge) drawnSince(us int64) bool { return c.drawn && c.At >= us }

// alike reports whether charges differ in their units only.
func (c Charge) alike(o *Charge) bool {
	c.Units, c.over = o.Units, o.over
	return c == *o
}

// Later returns the key as a node may see it at the clock: what was drawn is dated as late as possible. Nothing may be
// charged to it, and no hold ended.
func (k *Key) Later(clock int64) *Key {
	as := *k
	as.states = map[Window]*state{}
	for of, s := range k.states {
		c := *s
		c.charges = of.later(s.charges, clock)
		as.states[of] = &c
	}
	for of, charges := range k.undone {
		s := as.states[of]
		if s == nil {
			s = &state{calls: map[int64]int64{}}
			as.states[of] = s
		}
		s.charges = append(of.later(charges, clock), s.charges...)
		slices.SortStableFunc(s.charges, func(a, b Charge) int { return cmp.Compare(a.At, b.At) })
	}
	return &as
}

// Reset returns the key after a reset at the clock.
func (k *Key) Reset(clock int64) *Key {
	after := New()
	after.undone = map[Window][]Charge{}
	note := func(of Window, charges []Charge) {
		for _, c := range charges {
			if c.drawnSince(clock - Late*1000) {
				after.undone[of] = append(after.undone[of], c)
			}
		}
	}
	for of, charges := range k.undone {
		note(of, charges)
	}
	for of, s := range k.states {
		note(of, s.charges)
	}
	return after
}

// Window returns the decision that describes one window as it is.
func (k *Key) Window(clock int64, s *limit.Spec, i int, allowed, ids bool) limit.Decision {
	return k.describe(clock, s, i, allowed, ids)
}
