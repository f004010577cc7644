// Package backlog holds what waits for one node, and decides what is sent to it together and by whom. It knows runs of
// items, their number and their work, which is how long the node is expected to take for them, and nothing of what the
// items ask for.
//
// A caller adds a run: items that are answered together, such as those of one pipeline for one node. It waits for their
// answers before it adds the next one, so the order of runs does not matter. A worker takes a batch: the oldest run,
// and all others that fit. So dear runs share the batches with cheap ones, which do not wait for all of them. While
// batches are under way, runs wait and become the next batch, so the busier a node is, the larger its batches are, up
// to the bounds.
//
// Reading order: backlog.go (this file), worker.go (who serves batches, and how much a node gets at a time).
package backlog

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// InFlight is the number of batches that a node may have under way. Two keep the node busy while this process reads the
// answers to the last one.
const InFlight = 2

// MaxItems is the most items of a batch of several runs.
const MaxItems = 1024

// Bounds are what a Queue allows.
type Bounds struct {
	Waiting int // the most items that may wait
	Aside   int // the most workers that may step aside at a time

	// Least and Most are the bounds of the allowance. Without them, runs must be no work.
	Least, Most time.Duration
}

// The errors of Add.
var (
	ErrClosed = errors.New("the node has left the topology")
	ErrFull   = errors.New("queue full")
)

// A Queue holds the runs that wait for a node. Its zero value must get its Bounds from Open.
type Queue[T any] struct {
	allowance // of a run
	bounds    Bounds
	carrier   func() Carrier[T]

	mu      sync.Mutex
	ready   sync.Cond // a worker may find something to do, or closed is set, or the last batch has ended since
	items   []T       // of all runs; guarded by mu
	runs    []run     // guarded by mu
	busy    int       // batches under way, but for those of workers that have stepped aside; guarded by mu
	aside   int       // workers that have stepped aside; guarded by mu
	started int       // workers; guarded by mu
	closed  bool      // guarded by mu

	held    atomic.Bool               // it is in a Held
	spare   atomic.Pointer[worker[T]] // for the next caller that serves a batch itself
	workers sync.WaitGroup
}

// run is items that one caller has added together.
type run struct {
	items int
	work  time.Duration
}

// Open sets the bounds, and what returns a carrier for each worker. It comes before every other call.
func (q *Queue[T]) Open(bounds Bounds, carrier func() Carrier[T]) {
	q.bounds, q.carrier = bounds, carrier
	q.ready.L = &q.mu
	q.set(bounds)
}

// Close makes Add fail, and waits until all runs are served and the workers have ended. It may be called again.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	q.closed = true
	q.ready.Broadcast()
	for q.busy > 0 || len(q.runs) > 0 {
		q.ready.Wait()
	}
	q.mu.Unlock()
	q.workers.Wait()
}

// Add adds a run, of which it copies the items. It wakes no worker: see Wake.
func (q *Queue[T]) Add(items []T, work time.Duration) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		return ErrClosed
	case len(q.items)+len(items) > q.bounds.Waiting:
		return ErrFull
	}
	if len(items) > 0 {
		q.items = append(q.items, items...)
		q.runs = append(q.runs, run{len(items), work})
		q.startWorkers()
	}
	return nil
}

// Wake wakes a worker that waits for runs.
func (q *Queue[T]) Wake() { q.ready.Signal() }

// Held are queues that were given runs whose workers are woken later. Its zero value is ready.
type Held[T any] struct {
	mu     sync.Mutex
	queues []*Queue[T] // guarded by mu
}

// Hold puts off waking a worker of q until the next Wake.
func (h *Held[T]) Hold(q *Queue[T]) {
	if q.held.Load() {
		return // it is listed, or will be before another Wake gets mu
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !q.held.Swap(true) {
		h.queues = append(h.queues, q)
	}
}

// Wake wakes a worker of each queue that is held.
func (h *Held[T]) Wake() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.queues {
		q.held.Store(false) // before the signal: a queue that is given runs later is listed again
		q.Wake()
	}
	clear(h.queues)
	h.queues = h.queues[:0]
}

// moveBatch appends the items of the next batch to buf: those of the oldest run, and of all others that fit: their work
// is no more than the allowance of a run, and a quarter of it for cheap ones beside it. It returns their work, too. The
// caller holds mu, and there is a run.
func (q *Queue[T]) moveBatch(buf []T) (batch []T, work time.Duration) {
	from, kept, items, most := 0, q.runs[:0], q.items[:0], q.Allowance()*5/4
	for i, r := range q.runs {
		run := q.items[from : from+r.items]
		from += r.items
		if i == 0 || len(buf)+r.items <= MaxItems && work+r.work <= most {
			buf, work = append(buf, run...), work+r.work
		} else {
			kept, items = append(kept, r), append(items, run...)
		}
	}
	clear(q.items[len(items):])
	q.runs, q.items = kept, items
	return buf, work
}

// Waiting returns how many items wait.
func (q *Queue[T]) Waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Busy returns how many batches are under way.
func (q *Queue[T]) Busy() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.busy
}

// Item is what a queue knows of each of its items, which embed it.
type Item struct {
	At     time.Duration // when it was submitted first, by the clock of the queue's user
	Asking bool          // it was redirected with ASK, and is sent after an ASKING
	hops   uint8         // how often it was redirected
}

// maxHops is how often an item is redirected. One hop is usual; more mean that nodes disagree on which of them owns a
// slot.
const maxHops = 8

// Lost reports whether an item was redirected so often that it is no longer.
func (it *Item) Lost() bool { return it.hops >= maxHops }

// Redirect counts that a node has redirected the item to another one, with ASK or MOVED.
func (it *Item) Redirect(asking bool) {
	it.hops++
	it.Asking = asking
}

// Common returns what is common to all items.
func (it *Item) Common() *Item { return it }

// lastPart is the part of a timeout, 1/lastPart, in which an item that has waited until then is no longer worth
// sending: whoever has asked gets another answer shortly.
const lastPart = 8

// Patience returns how long an item with that timeout may wait to be sent.
func Patience(timeout time.Duration) time.Duration { return timeout - timeout/lastPart }

// Late moves the items that have waited for the Patience of timeout behind the others, since the deadline of the oldest
// item is that of a whole batch. It returns both, and when the oldest of those in time was submitted.
func Late[T any, P interface {
	*T
	Common() *Item
}](items []T, now, timeout time.Duration) (inTime, late []T, oldest time.Duration) {
	oldest = now
	inTime = items[:0]
	for i := range items {
		if at := P(&items[i]).Common().At; now-at < timeout-timeout/lastPart {
			oldest = min(oldest, at)
			inTime = append(inTime, items[i])
		} else {
			late = append(late, items[i])
		}
	}
	return inTime, items[len(inTime):][:copy(items[len(inTime):], late)], oldest
}
