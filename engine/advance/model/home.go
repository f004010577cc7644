// Package model is the executable specification of the home's side of package advance: what the functions on a node
// do, as pure functions. Its tests compare the home and the proxies' code with a world that knows every true
// admission.
//
// Reading order: home.go, ledger.go, then world_helpers_test.go.
package model

import (
	"cmp"
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/engine/advance"
)

// Bound is a window of one algorithm, and a limit on it.
type Bound struct {
	Measure
	Limit  int64
	Strict bool // a counter counts its oldest sub-window in full
}

// Bounds are those of one request: its spec, apart from the cost.
type Bounds []Bound

// Ask is a call to the home: requests that are to be decided, an account, a question for an advance, or several of
// these.
type Ask struct {
	Proxy     int64
	Bounds    Bounds
	Cost      int64
	Requests  int64 // 0: none is to be decided
	Account   *advance.Account
	Want      int64         // the units that the proxy would like to have for its next spans; 0: none
	RoundTrip time.Duration // the proxy's to the node
}

// Decided is the home's answer.
type Decided struct {
	Clock    int64
	Misdated bool  // a calendar window is not that of the clock, so the requests are refused
	Granted  int64 // of the requests
	Recalled bool  // the others are undecided, and to be asked again when advances have come back
	Publish  bool  // all advances are recalled from all proxies
	Terms    advance.Terms
}

// out is an advance that is not accounted for yet.
type out struct {
	proxy    int64
	spec     Bounds
	number   int64
	before   int64 // the number until the newest account
	units    int64
	deadline int64
	span     int64 // ms from the newest grant to the deadline
	recalled int64 // the clock when it was recalled; 0: it was not
}

// silent reports whether the home waits no more for an advance to come back.
func (o *out) silent(clock int64) bool { return o.recalled > 0 && clock > o.recalled+o.span/patience }

// Home is a key's record, as far as advances are concerned.
type Home struct {
	ledgers   map[Measure]Ledger
	advanced  []out
	newest    int64 // the number of the newest advance
	resetAt   int64 // the clock at the newest reset
	FirstCalm int64 // ms
	calm      int64 // ms of the newest calm
	calmUntil int64
	Lapsed    int64 // units of advances that have lapsed
}

// NewHome returns a home that has counted nothing.
func NewHome() *Home { return &Home{ledgers: make(map[Measure]Ledger), FirstCalm: firstCalm} }

const (
	firstCalm = 1000 // ms
	lastCalm  = 30_000
	mostOut   = 64 // advances of a key
	pays      = 8  // requests
	scarce    = 32 // advances are recalled when less than the limit divided by this is left
	patience  = 4  // an advance counts as silent when its span divided by this has passed since its recall
)

// Decide answers an Ask by the node's clock, in ms.
func (h *Home) Decide(clock int64, q *Ask) Decided {
	h.lapse(clock)
	mine, again := h.account(clock, q)
	a := h.answer(clock, q)
	a.Clock = clock
	if again {
		a.Terms = h.termsOf(mine, clock)
	} else {
		a.Terms = h.terms(clock, q, mine)
	}
	a.Terms.Late = q.Account != nil && (mine < 0 || h.advanced[mine].silent(clock))
	h.advanced = slices.DeleteFunc(h.advanced, func(o out) bool { return o.units == 0 })
	if len(h.advanced) == 0 {
		h.newest = 0 // a home stores nothing about advances that have ended
	}
	return a
}

// lapse charges the advances whose deadline has come, as if all had been drawn then.
func (h *Home) lapse(clock int64) {
	slices.SortStableFunc(h.advanced, func(a, b out) int { return int(a.deadline - b.deadline) })
	h.advanced = slices.DeleteFunc(h.advanced, func(o out) bool {
		if o.deadline > clock {
			return false
		}
		h.charge(o.spec, o.deadline, o.units)
		h.Lapsed += o.units
		return true
	})
}

func (h *Home) charge(spec Bounds, at, units int64) {
	for _, p := range spec {
		if h.ledgers[p.Measure] == nil {
			h.ledgers[p.Measure] = NewLedger(p.Measure)
		}
		h.ledgers[p.Measure].Charge(at, units)
	}
}

// account applies the account. It returns the index of its advance, -1 if there is none, and whether the account was
// applied before.
func (h *Home) account(clock int64, q *Ask) (index int, again bool) {
	if q.Account == nil {
		return -1, false
	}
	i := slices.IndexFunc(h.advanced, func(o out) bool {
		return o.proxy == q.Proxy && (o.number == q.Account.Number || o.before == q.Account.Number)
	})
	if i < 0 || h.advanced[i].before == q.Account.Number {
		return i, true
	}
	o := &h.advanced[i]
	for _, d := range q.Account.Draws {
		if at := min(d.At, clock); at >= h.resetAt { // some of the ms of a reset come after it
			h.charge(o.spec, at, d.Units)
		}
	}
	o.units, o.before, o.number = q.Account.Keep, o.number, h.next(clock)
	return i, false
}

// next returns the number of a new advance. It is not that of an earlier one even if the home has lost its memory.
func (h *Home) next(clock int64) int64 {
	h.newest = max(h.newest+1, clock*1000)
	return h.newest
}

// Room returns what the limits of a spec leave, and the least of them. While units are advanced under other limits on
// the same window, the home observes those too, because proxies draw up to them.
func (h *Home) Room(clock int64, spec Bounds) (room, limit int64) {
	room, limit = spec[0].Limit, spec[0].Limit
	observe := func(p Bound) {
		left := p.Limit - h.advancedOf(p.Measure)
		if l := h.ledgers[p.Measure]; l != nil {
			left -= l.Used(clock, p.Strict)
		}
		room = min(room, left)
	}
	for _, p := range spec {
		limit = min(limit, p.Limit)
		observe(p)
		for _, o := range h.advanced {
			for _, other := range o.spec {
				if other.Measure == p.Measure && o.units > 0 {
					observe(other)
				}
			}
		}
	}
	return room, limit
}

// advancedOf returns the units that are advanced of a window, for whichever limits.
func (h *Home) advancedOf(s Measure) (units int64) {
	for _, o := range h.advanced {
		if o.spec.has(s) {
			units += o.units
		}
	}
	return units
}

func (b Bounds) has(state Measure) bool {
	return slices.ContainsFunc(b, func(p Bound) bool { return p.Measure == state })
}

// answer decides the requests. Requests without room are not denied while advances are in the way that may still come
// back: the home recalls them. It does so when little room is left, so that hardly any request has to wait for that.
func (h *Home) answer(clock int64, q *Ask) (a Decided) {
	if q.Requests == 0 {
		return a
	}
	if a.Misdated = q.Bounds.left(clock) <= 0; a.Misdated {
		return a
	}
	room, limit := h.Room(clock, q.Bounds)
	a.Granted = q.Requests
	if q.Cost > 0 {
		a.Granted = max(0, min(q.Requests, room/q.Cost))
	}
	undecided := a.Granted < q.Requests || q.Cost == 0
	if undecided || room-a.Granted*q.Cost < limit/scarce {
		a.Recalled, a.Publish = h.recall(clock, q)
	}
	if a.Recalled = a.Recalled && undecided; a.Recalled && q.Cost == 0 {
		a.Granted = 0
	}
	if units := a.Granted * q.Cost; units > 0 {
		h.charge(q.Bounds, clock, units)
	}
	return a
}

// recall recalls all advances if any is in the way of the requests. It reports whether the home must wait, because one
// of those that are in the way may still come back, and whether it recalled any that were not recalled before.
func (h *Home) recall(clock int64, q *Ask) (waits, recalls bool) {
	for _, o := range h.advanced {
		if o.units > 0 && slices.ContainsFunc(q.Bounds, func(p Bound) bool { return o.spec.has(p.Measure) }) {
			recalls = recalls || o.recalled == 0
			waits = waits || !o.silent(clock)
		}
	}
	if !recalls {
		return waits, false
	}
	for i := range h.advanced {
		if h.advanced[i].recalled == 0 {
			h.advanced[i].recalled = clock
		}
	}
	if q.Cost > 0 {
		h.beginCalm(clock)
	}
	return waits, true
}

// beginCalm begins a time without advances: for a key near its limit they would only be recalled. It is twice as long
// as the one before, unless that is long over.
func (h *Home) beginCalm(clock int64) {
	switch {
	case clock < h.calmUntil:
		return
	case h.calm == 0 || clock > h.calmUntil+4*h.calm:
		h.calm = h.FirstCalm
	default:
		h.calm = min(2*h.calm, lastCalm)
	}
	h.calmUntil = clock + h.calm
}

// terms makes or renews the asker's advance. mine is the index of the one that it has accounted for, or -1.
func (h *Home) terms(clock int64, q *Ask, mine int) advance.Terms {
	if mine < 0 && !h.mayHaveOne(q) || mine >= 0 && h.advanced[mine].recalled > 0 {
		return h.termsOf(mine, clock)
	}
	span := advance.Span(advance.Usual, q.Bounds.shortest(), q.RoundTrip)
	if q.Want == 0 || span == 0 || span > q.Bounds.left(clock) || clock < h.calmUntil {
		if mine >= 0 {
			h.advanced[mine].recalled = clock // it is not renewed
		}
		t := h.termsOf(mine, clock)
		t.Calm = q.Want > 0 && clock < h.calmUntil
		return t
	}
	room, limit := h.Room(clock, q.Bounds)
	proxies, want := int64(len(h.advanced)), q.Want
	if mine < 0 {
		proxies++
	} else {
		want -= h.advanced[mine].units
	}
	units := grant(want, room, limit, proxies, pays*max(q.Cost, 1))
	if mine < 0 && units > 0 {
		h.advanced = append(h.advanced, out{proxy: q.Proxy, spec: q.Bounds, number: h.next(clock)})
		mine = len(h.advanced) - 1
	}
	if mine >= 0 {
		o := &h.advanced[mine]
		o.units, o.deadline, o.span = o.units+units, clock+span, span
	}
	return h.termsOf(mine, clock)
}

// grant returns how many units the home advances to a proxy that wants some. room is what its limits leave, limit the
// least of these, and proxies how many have an advance, the asker included. least is the fewest for which an advance
// pays.
func grant(want, room, limit, proxies, least int64) int64 {
	units := min(want, room/2/proxies, room-limit/advance.Reserve)
	if units < least {
		return 0
	}
	return units
}

// mayHaveOne reports whether the asker may get an advance. A proxy that has one without knowing it gets no other: the
// answer with that one may still be under way.
func (h *Home) mayHaveOne(q *Ask) bool {
	return q.Account == nil && len(h.advanced) < mostOut && !slices.ContainsFunc(h.advanced, func(o out) bool {
		return o.proxy == q.Proxy && slices.Equal(o.spec, q.Bounds)
	})
}

// termsOf returns what the proxy may draw. An advance without units ends.
func (h *Home) termsOf(i int, clock int64) advance.Terms {
	if i < 0 || h.advanced[i].units == 0 {
		return advance.Terms{Clock: clock}
	}
	o := h.advanced[i]
	return advance.Terms{Number: o.number, Units: o.units, Deadline: o.deadline, Clock: clock, Recalled: o.recalled > 0}
}

// shortest returns the length of the shortest window.
func (b Bounds) shortest() int64 {
	return slices.MinFunc(b, func(x, y Bound) int { return int(x.Window - y.Window) }).Window
}

// left returns for how many ms from a clock on units may be advanced: no advance is made before a calendar window
// begins, or lasts beyond its end.
func (b Bounds) left(clock int64) int64 {
	return slices.MinFunc(b, func(x, y Bound) int { return cmp.Compare(x.left(clock), y.left(clock)) }).left(clock)
}

// Reset forgets what was charged. What is advanced stays counted. The message about the reset recalls it.
func (h *Home) Reset(clock int64) {
	h.lapse(clock)
	clear(h.ledgers)
	h.resetAt = clock
	for i := range h.advanced {
		h.advanced[i].recalled = clock
	}
}
