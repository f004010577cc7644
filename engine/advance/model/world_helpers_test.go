package model

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"github.com/rlproxy/rlproxy/engine/advance"
)

// world is a node with the home of one key, proxies, and messages between them that take time or get lost. It records
// what truly happened, by the node's clock. Time moves from event to event.
type world struct {
	rng     *rand.Rand
	now     int64 // the node's true time in us
	steps   int   // events so far
	queue   events
	order   int // events scheduled so far
	mutant  *mutant
	faults  faults
	timeout int64 // us after which a proxy gives up a call

	home    *Home
	truth   map[Measure]Ledger // every true admission since the newest reset
	lenient map[Measure]Ledger // the same, each slack ms later
	slack   int64              // ms by which the home may date a draw too late
	proxies []*proxy
	broken  []string // what happened against the promise
	seen    tally
}

// faults says which faults happen.
type faults struct {
	loss   float64 // the probability that a message is lost
	late   float64 // the probability that a message is late, by up to lateBy us
	lateBy int64
	twice  float64 // the probability that an account arrives again, up to 300 ms later
	silent bool    // messages are lost or late, or proxies end or stop: what a proxy holds may stand in the way of others
}

// tally counts what happened.
type tally struct {
	requests, drawn, admitted, denied, misdated, dated, recalls, lapsed, calls, resets, kills, stops, cuts int64
}

// event is something that happens at a time. Events of the same time happen in the order in which they were
// scheduled.
type event struct {
	at    int64
	order int
	do    func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	(*e)[last] = event{}
	*e = (*e)[:last]
	return x
}

func (w *world) after(us int64, do func()) {
	w.order++
	heap.Push(&w.queue, event{w.now + us, w.order, do})
}

// run executes events until the total number of steps is reached, or a violation is found.
func (w *world) run(steps int) {
	for w.steps < steps && len(w.queue) > 0 && len(w.broken) == 0 {
		e := heap.Pop(&w.queue).(event)
		w.now = e.at
		w.steps++
		e.do()
	}
}

func (w *world) fail(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf("step %d, %d us: ", w.steps, w.now)+fmt.Sprintf(format, args...))
}

func (w *world) clock() int64 { return w.now / 1000 }

// every schedules do repeatedly, with pauses in between.
func (w *world) every(pause func() int64, do func()) {
	w.after(1+pause(), func() {
		do()
		w.every(pause, do)
	})
}

// admitted records a true admission, and checks all limits of its spec.
func (w *world) admitted(spec Bounds, units int64) {
	for _, p := range spec {
		if p.Measure != p.Dated(w.clock()) {
			w.fail("admitted in %+v", p.Measure)
		}
		l := w.truth[p.Measure]
		if l == nil {
			l = NewLedger(p.Measure)
			w.truth[p.Measure], w.lenient[p.Measure] = l, NewLedger(p.Measure)
		}
		l.Charge(w.clock(), units)
		if p.Algorithm == Bucket || p.Algorithm == Calendar {
			w.lenient[p.Measure].Charge(w.clock(), units)
		} else {
			w.lenient[p.Measure].Charge(w.clock()+w.slack, units)
		}
		if used := l.Used(w.clock(), p.Strict); used > p.Limit {
			w.fail("%d of %+v in use, limit %d", used, p.Measure, p.Limit)
		}
	}
}

// denied checks a denial: without silent proxies there was no room, apart from units that left the window only just
// now.
func (w *world) denied(spec Bounds, cost int64) {
	if w.faults.silent {
		return
	}
	for _, p := range spec {
		if w.clock() < w.home.resetAt+2*p.Window+w.slack {
			return // a draw just before a reset may be dated after it
		}
		if l := w.lenient[p.Measure]; l != nil {
			used := l.Used(w.clock(), p.Strict)
			if p.Algorithm == Bucket {
				const span = 2000 // a draw before the newest charge is taken as one at that time
				used += p.Parameter*span/p.Window + 1
			}
			if used+cost > p.Limit {
				return
			}
		}
	}
	w.fail("denied %d units of %+v although there was room, advanced %+v, faults %+v", cost, spec, w.home.advanced, w.faults)
}

// lost reports whether a message from or to a proxy is lost.
func (w *world) lost(p *proxy) bool {
	return w.now < p.cutOff || w.faults.loss > 0 && w.rng.Float64() < w.faults.loss
}

// latency returns how long a message of a proxy takes.
func (w *world) latency(p *proxy) int64 {
	if w.faults.late > 0 && w.rng.Float64() < w.faults.late {
		return w.rng.Int64N(w.faults.lateBy)
	}
	return p.distance + w.rng.Int64N(p.distance/4+1)
}

// call asks the home. done gets the answer, or nil if none came in time. If again is true, the message may arrive a
// second time.
func (w *world) call(p *proxy, q *Ask, again bool, done func(a *Decided, sent advance.Instant)) {
	heard, sent := false, p.instant()
	hear := func(a *Decided) {
		if !heard {
			heard = true
			p.when(func() { done(a, sent) })
		}
	}
	w.after(w.timeout, func() { hear(nil) })
	arrive := func() {
		a := w.decide(q)
		if !w.lost(p) {
			w.after(w.latency(p), func() { hear(&a) })
		}
	}
	if !w.lost(p) {
		w.after(w.latency(p), arrive)
	}
	if again && w.faults.twice > 0 && w.rng.Float64() < w.faults.twice {
		w.after(w.latency(p)+w.rng.Int64N(300_000), arrive)
	}
}

// decide has the home decide, and judges what it decided.
func (w *world) decide(q *Ask) Decided {
	lapsed := w.home.Lapsed
	w.mutant.decide(w, q)
	a := w.home.Decide(w.clock(), q)
	w.mutant.after(w, q, &a)
	w.seen.lapsed += w.home.Lapsed - lapsed
	if units := a.Granted * q.Cost; units > 0 {
		w.seen.admitted += a.Granted
		w.admitted(q.Bounds, units)
	}
	if q.Requests > a.Granted && !a.Recalled && !a.Misdated && q.Cost > 0 && q.Proxy != 0 {
		w.denied(q.Bounds, q.Cost)
	}
	if a.Publish {
		w.seen.recalls++
		w.publish()
	}
	return a
}

// publish tells all proxies that advances are recalled.
func (w *world) publish() {
	for _, p := range w.proxies {
		if !w.lost(p) {
			w.after(w.latency(p), func() { p.when(func() { p.recall() }) })
		}
	}
}

// untilDeadline returns the us until the deadline of one of the advances, at least 40 ms.
func (w *world) untilDeadline(i int) int64 {
	const least = 40_000
	if len(w.home.advanced) == 0 {
		return least
	}
	return max(w.home.advanced[i%len(w.home.advanced)].deadline*1000-w.now, least)
}

// siege takes all room that there is, now and a window later, when what was drawn and charged now leaves it.
func (w *world) siege(spec Bounds) {
	take := func() {
		spec := spec.dated(w.clock())
		w.home.lapse(w.clock())
		if units, _ := w.home.Room(w.clock(), spec); units > 0 {
			w.home.charge(spec, w.clock(), units)
			w.admitted(spec, units)
		}
	}
	take()
	for ms := int64(-45); ms <= 45; ms += 1 {
		w.after((spec.shortest()+ms)*1000, take)
	}
}
