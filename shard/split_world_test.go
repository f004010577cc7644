package shard

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
)

// world is the model's: nodes with clocks of their own, messages that take their time
// or get lost, and what truly happened. Time is in microseconds and moves from event
// to event.
type world struct {
	rng    *rand.Rand
	now    int64 // us
	steps  int
	queue  events
	order  int
	rules  Rules
	nodes  []*node // 0 is the home
	lent   int64   // units that parts admitted
	broken []string
	mutant mutant

	latency func() int64 // us, one way
	loss    float64      // of a message, each way
	timeout int64        // us, until a proxy gives a call up
}

// event is something that happens at a time; equal times in the order of scheduling.
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

// run takes steps until there are no more or so many were taken.
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

// outcome is what a caller learns of a call.
type outcome uint8

const (
	answered outcome = iota
	refused          // known not to have run
	unknown          // no answer in time: it ran, will run, or never does
)

// call runs at a node after the message's latency; done hears of it once. The message
// may be lost or late, and so may the answer.
func (w *world) call(n *node, run func(), done func(outcome)) {
	heard := false
	hear := func(o outcome) {
		if !heard {
			heard = true
			done(o)
		}
	}
	w.after(w.timeout, func() { hear(unknown) })
	if w.rng.Float64() < w.loss {
		return
	}
	w.after(w.latency(), func() {
		if !n.up {
			w.after(w.latency(), func() { hear(refused) })
			return
		}
		n.calls++
		n.expire()
		run()
		if w.rng.Float64() >= w.loss {
			w.after(w.latency(), func() { hear(answered) })
		}
	})
}

// node is a backend: its clock, the use of its windows, and the record that the
// protocol keeps there. truth is what it really admitted, lost memory or not.
type node struct {
	w      *world
	offset int64 // us
	up     bool
	calls  int // that reached it
	logs   map[State]*usage
	truth  map[State]*usage
	part   Part
	home   Home
}

func (n *node) clock() int64 { return (n.w.now + n.offset) / 1000 }

func (n *node) newest() int64 {
	t := int64(0)
	for _, l := range n.logs {
		t = max(t, l.newest())
	}
	return t
}

func (n *node) used(s State, _ bool) int64 {
	l := n.logs[s]
	if l == nil {
		return 0
	}
	now := max(n.clock(), l.newest())
	return l.sum(func(t int64) bool { return s.counts(t, now) })
}

// counts is the contract's: a log's unit admitted at t counts while now <= t + window,
// a strict counter's while its sub-window is one of the last n+1.
func (s State) counts(t, now int64) bool {
	if s.Buckets == 0 {
		return now <= t+s.Window
	}
	return now*s.Buckets/s.Window <= t*s.Buckets/s.Window+s.Buckets
}

// charge admits units of an ask, after checking them against all that was truly
// admitted in the window that ends now.
func (n *node) charge(a *Ask, granted int64) {
	if granted == 0 {
		return
	}
	if n != n.w.nodes[0] {
		n.w.lent += granted * a.Cost
	}
	for _, p := range a.Pairs {
		if n.logs[p.State] == nil {
			n.logs[p.State] = &usage{}
		}
		if n.truth[p.State] == nil {
			n.truth[p.State] = &usage{}
		}
		n.logs[p.State].add(max(n.clock(), n.logs[p.State].newest()), granted*a.Cost)
		n.truth[p.State].add(n.w.now, granted*a.Cost)
		sum := int64(0)
		for _, other := range n.w.nodes {
			if l := other.truth[p.State]; l != nil {
				sum += l.sum(func(t int64) bool { return n.w.now <= t+p.Window*1000 })
			}
		}
		if sum > p.Limit {
			n.w.fail("%d units of %v within its window, limit %d", sum, p.State, p.Limit)
		}
	}
}

// newWorld makes nodes whose clocks are apart, the first of which is the home.
func newWorld(rng *rand.Rand, nodes int, rules Rules, m mutant) *world {
	w := &world{rng: rng, now: 1e9, rules: rules, mutant: m}
	for range nodes {
		w.nodes = append(w.nodes, &node{w: w, offset: rng.Int64N(1e8), up: true,
			logs: map[State]*usage{}, truth: map[State]*usage{}})
	}
	w.nodes[0].home.Parts = nodes
	return w
}

// forget deletes the use of every window, as a reset means to.
func (n *node) forget() {
	clear(n.logs)
	clear(n.truth)
}

// expire ends the record's time to live, which is that of all that the node keeps.
func (n *node) expire() {
	for s := range n.logs {
		if n.used(s, true) > 0 {
			return
		}
	}
	if n.part.Ends <= n.clock() {
		n.lose()
	}
}

// lose is a restart without memory: what was admitted was admitted all the same.
func (n *node) lose() {
	clear(n.logs)
	n.part = Part{}
}

// usage is admissions in order of time: units by time.
type usage struct {
	times []int64
	units []int64
	total int64
}

func (u *usage) add(t, units int64) {
	u.total += units
	if last := len(u.times) - 1; last >= 0 && u.times[last] == t {
		u.units[last] += units
		return
	}
	u.times, u.units = append(u.times, t), append(u.units, units)
}

func (u *usage) newest() int64 {
	if len(u.times) == 0 {
		return 0
	}
	return u.times[len(u.times)-1]
}

// sum drops what counts no more, oldest first, and returns the rest.
func (u *usage) sum(counts func(t int64) bool) int64 {
	i := 0
	for i < len(u.times) && !counts(u.times[i]) {
		u.total -= u.units[i]
		i++
	}
	u.times, u.units = u.times[i:], u.units[i:]
	return u.total
}

// retry is the ms until the oldest unit is forgotten; at most a second.
func (n *node) retry(s State) int64 {
	l := n.logs[s]
	if l == nil || len(l.times) == 0 {
		return 1000
	}
	return max(1, l.times[0]+s.Window+1-n.clock())
}
