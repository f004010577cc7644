// Package model computes the behaviour of holds and ids directly from its definition: a key is a flat list of charges and
// of holds, and every answer looks through all of them. It shares no code with package hold. Only tests import it.
//
// Reading order: model.go (this file), settle.go (how holds end or last), inspect.go (what a key shows).
package model

import (
	"math"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Kinds are the kinds with windows that the models of this package and of package conformance know.
var Kinds = []limit.Kind{limit.Slide, limit.Counter, limit.Fixed}

// Key has the charges, holds and remembered ids of one key.
type Key struct {
	charges []charge
	holds   []*hold // those outstanding, and lapsed ones that no write has removed
	known   []*hold // whose ids are remembered
	newest  int64   // ms of the newest charge
	changed int64   // ms of the newest change of an id
	last    map[window]held
	largest map[window]int64 // largest limit asked
}

// window is one window of one command.
type window struct {
	kind            limit.Kind
	length, buckets int64
}

// held has the limit and the time of the newest hold of a window.
type held struct{ at, limit int64 }

type charge struct {
	window
	at    int64 // as the clock had it
	t     int64 // as the window counts it: RL.SLIDE may round up
	units int64
	over  int64 // those of the units that no limit admitted
}

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
	kind     limit.Kind
	buckets  int64
	windows  []limit.Window
}

// New returns a key without anything.
func New() *Key { return &Key{last: map[window]held{}, largest: map[window]int64{}} }

func windowOf(kind limit.Kind, buckets int64, w limit.Window) window {
	return window{kind, w.Length, buckets}
}

func class(kind limit.Kind, once bool) string {
	switch {
	case once:
		return "once"
	case kind == limit.Concurrency:
		return "slots"
	}
	return "reservation"
}

// Now returns the time by which a request at the clock is decided. ids says whether the request has an id.
func (k *Key) Now(clock int64, ids bool) int64 {
	now := max(clock, k.newest)
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
func (k *Key) deadline(now, ttl int64, kind limit.Kind, buckets int64, windows []limit.Window) int64 {
	part := int64(64)
	for _, w := range windows {
		deadlines := map[int64]bool{}
		for _, h := range k.holds {
			if h.has(windowOf(kind, buckets, w)) {
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

// charged returns the units charged that count at now in a window.
func (k *Key) charged(of window, now int64, strict bool) int64 {
	var sum, oldest, newest int64
	for _, c := range k.charges {
		if c.window != of {
			continue
		}
		newest = max(newest, c.t)
		switch k, j := sub(of, now), sub(of, c.t); {
		case of.kind == limit.Slide:
			if now <= c.t+of.length {
				sum += c.units
			}
		case of.kind == limit.Fixed:
			if j == k {
				sum += c.units
			}
		case j == k-of.buckets:
			oldest += c.units
		case j > k-of.buckets:
			sum += c.units
		}
	}
	for _, h := range k.holds { // lapsed and not taken
		if now >= h.deadline && !h.release && h.has(of) {
			if t := max(grid(h.deadline, k.last[of].limit, of.length), newest); now <= t+of.length {
				sum += h.units
			}
		}
	}
	if oldest > 0 && !strict {
		elapsed := now * of.buckets % of.length
		oldest = int64(math.Floor((float64(oldest) * float64(of.length-elapsed)) / float64(of.length)))
	}
	return sum + oldest
}

func sub(of window, t int64) int64 {
	if of.length == 0 {
		return 0
	}
	return t * of.buckets / of.length
}

// grid returns the ms with which RL.SLIDE dates a charge.
func grid(t, most, length int64) int64 {
	if most <= 65536 {
		return t
	}
	g := int64(math.Ceil(float64(length) / 65536))
	for t%g != 0 {
		t++
	}
	return t
}

// held returns the units held at now in a window, and the number of their holds.
func (k *Key) held(of window, now int64) (units, holds int64) {
	for _, h := range k.holds {
		if now < h.deadline && h.has(of) {
			units += h.units
			holds++
		}
	}
	return units, holds
}

func (h *hold) has(of window) bool {
	return h.kind == of.kind && h.buckets == of.buckets &&
		slices.ContainsFunc(h.windows, func(w limit.Window) bool { return w.Length == of.length })
}

func (k *Key) used(s *limit.Spec, i int, now int64) int64 {
	of := windowOf(s.Kind, s.Param, s.Windows[i])
	units, _ := k.held(of, now)
	return k.charged(of, now, s.Strict()) + units
}

// Fits reports whether window i of s has room for one more request at the clock.
func (k *Key) Fits(clock int64, s *limit.Spec, i int, ids bool) bool {
	return k.used(s, i, k.Now(clock, ids))+max(s.Cost, 1) <= s.Windows[i].Limit
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
	now := k.Now(clock, with != nil)
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
			if d := k.describe(clock, s, i, false, with != nil); d.RetryAfter > a.RetryAfter {
				a.Decision = d
			}
		}
		return a
	}
	h := &hold{kind: s.Kind, buckets: s.Param, windows: slices.Clone(s.Limits()), units: s.Cost}
	for _, w := range h.windows {
		of := windowOf(s.Kind, s.Param, w)
		k.largest[of] = max(k.largest[of], w.Limit)
	}
	switch {
	case s.Cost == 0:
	case with == nil || with.Once:
		a.Lapsed = k.lapse(now)
		k.charge(now, h, s.Cost, 0)
	default:
		a.Lapsed = k.lapse(now)
		h.ttl, h.deadline = with.TTL, k.deadline(now, with.TTL, h.kind, h.buckets, h.windows)
		h.release = with.Release || s.Kind != limit.Slide
		k.holds = append(k.holds, h)
		for _, w := range h.windows {
			k.last[windowOf(s.Kind, s.Param, w)] = held{now, w.Limit}
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
			for _, w := range h.windows {
				h.until = max(h.until, now+w.Length+1)
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
	w := s.Windows[i]
	d := limit.Decision{Allowed: allowed, Window: i, Limit: w.Limit}
	d.Remaining = max(w.Limit-k.used(s, i, k.Now(clock, ids)), 0)
	if !allowed {
		d.RetryAfter = smallest(1, func(ms int64) bool { return k.Fits(clock+ms, s, i, ids) })
	}
	d.ResetAfter = smallest(0, func(ms int64) bool { return k.used(s, i, k.Now(clock+ms, ids)) == 0 })
	return d
}

// smallest returns the smallest r >= from for which a condition is true that stays true for all larger r.
func smallest(from int64, holds func(r int64) bool) int64 {
	fails, step := from-1, int64(1)
	for !holds(fails + step) {
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
