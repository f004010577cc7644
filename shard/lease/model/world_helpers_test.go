package model

import (
	"container/heap"
	"fmt"
	"math/rand/v2"

	"github.com/rlproxy/rlproxy/shard/lease"
)

// world simulates nodes with clocks of their own and messages that take time or get lost,
// and records what truly happened. Time moves from event to event.
type world struct {
	rng    *rand.Rand
	now    int64 // True time in us.
	steps  int   // Events so far.
	queue  events
	order  int // Events scheduled so far.
	rules  lease.Rules
	nodes  []*node  // The home is the first.
	lent   int64    // Units that shards admitted.
	broken []string // What happened against the promise.
	mutant mutant

	latency func() int64 // Returns the latency of a message, in us.
	loss    float64      // Probability that a message is lost.
	timeout int64        // Time after which a proxy gives up a call, in us.
}

// event is something that happens at a time. Events of the same time happen in the order
// in which they were scheduled.
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

// run executes events until none is left, the total number of steps is reached, or a violation
// is found.
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

// outcome is what a caller learns about a call.
type outcome uint8

const (
	answered outcome = iota
	notRun           // The function did not run and never will.
	unknown          // No answer came in time: the function ran, will run, or never does.
)

// call runs a function at a node after the latency of the message, and calls done once
// with the outcome. The message may be lost or late, and so may the answer.
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
			w.after(w.latency(), func() { hear(notRun) })
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

// node is a simulated node: its clock, the use of its windows and the records that the
// protocol keeps there.
type node struct {
	w      *world
	offset int64 // Clock's offset from true time, in us.
	up     bool
	calls  int                        // Calls that have reached the node.
	logs   map[lease.StateName]*usage // Admissions that the node remembers, by its own clock in ms.
	truth  map[lease.StateName]*usage // All admissions of the node, by true time in us, even if it lost its memory.
	shard  Shard
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

func (n *node) used(s lease.StateName, _ bool) int64 {
	l := n.logs[s]
	if l == nil {
		return 0
	}
	now := max(n.clock(), l.newest())
	return l.sum(func(t int64) bool { return counts(s, t, now) })
}

// counts reports whether a unit that was admitted at t counts now. A log's
// unit counts while now <= t + window, and a strict counter's while its sub-window is one
// of the last n+1.
func counts(s lease.StateName, t, now int64) bool {
	if s.Buckets == 0 {
		return now <= t+s.Window
	}
	return now*s.Buckets/s.Window <= t*s.Buckets/s.Window+s.Buckets
}

// charge records that requests were admitted, and checks the limit against everything that
// all nodes truly admitted in the window that ends now.
func (n *node) charge(d *lease.Demand, granted int64) {
	if granted == 0 {
		return
	}
	if n != n.w.nodes[0] {
		n.w.lent += granted * d.Cost
	}
	for _, p := range d.Pairs {
		if n.logs[p.StateName] == nil {
			n.logs[p.StateName] = &usage{}
		}
		if n.truth[p.StateName] == nil {
			n.truth[p.StateName] = &usage{}
		}
		n.logs[p.StateName].add(max(n.clock(), n.logs[p.StateName].newest()), granted*d.Cost)
		n.truth[p.StateName].add(n.w.now, granted*d.Cost)
		sum := int64(0)
		for _, other := range n.w.nodes {
			if l := other.truth[p.StateName]; l != nil {
				sum += l.sum(func(t int64) bool { return n.w.now <= t+p.Window*1000 })
			}
		}
		if sum > p.Limit {
			n.w.fail("%d units of %v within its window, limit %d", sum, p.StateName, p.Limit)
		}
	}
}

// newWorld returns a world of nodes whose clocks differ. The first is the home.
func newWorld(rng *rand.Rand, nodes int, rules lease.Rules, m mutant) *world {
	w := &world{rng: rng, now: 1e9, rules: rules, mutant: m}
	for range nodes {
		w.nodes = append(w.nodes, &node{w: w, offset: rng.Int64N(1e8), up: true,
			logs: map[lease.StateName]*usage{}, truth: map[lease.StateName]*usage{}})
	}
	w.nodes[0].home.Shards = nodes
	return w
}

// forget deletes the use of every window, including the true one, because a reset intends to.
func (n *node) forget() {
	clear(n.logs)
	clear(n.truth)
}

// expire deletes everything that the node keeps if its time to live is over, that is, if no
// unit counts any more and the shard's record may be deleted.
func (n *node) expire() {
	for s := range n.logs {
		if n.used(s, true) > 0 {
			return
		}
	}
	if n.shard.Expires <= n.clock() {
		n.lose()
	}
}

// lose restarts the node without its memory. What it admitted still counts in truth.
func (n *node) lose() {
	clear(n.logs)
	n.shard = Shard{}
}

// usage is a list of admissions in the order of time.
type usage struct {
	times []int64 // Times of the admissions, in the unit of the caller.
	units []int64 // Units admitted at each of the times.
	total int64   // Sum of units.
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

// sum drops the units that no longer count, the oldest first, and returns the rest.
func (u *usage) sum(counts func(t int64) bool) int64 {
	i := 0
	for i < len(u.times) && !counts(u.times[i]) {
		u.total -= u.units[i]
		i++
	}
	u.times, u.units = u.times[i:], u.units[i:]
	return u.total
}

// retry returns the time in ms until the oldest unit no longer counts, or a second if there
// is none.
func (n *node) retry(s lease.StateName) int64 {
	l := n.logs[s]
	if l == nil || len(l.times) == 0 {
		return 1000
	}
	return max(1, l.times[0]+s.Window+1-n.clock())
}
