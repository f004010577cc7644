// Package backlog holds what waits for one node, and decides what is sent to it together. It knows runs of
// items, their number and their expected cost, and nothing of what the items ask for.
//
// A caller adds a run: items that are answered together, such as those of one pipeline for one node. It waits for
// their answers before it adds the next one, so the order of runs does not matter. A worker takes a batch: the oldest run,
// and all others that fit. So dear runs share the batches with cheap ones, which do not wait for all of them. While batches
// are under way, runs wait and become the next batch, so the busier a node is, the larger its batches are, up to the bounds.
package backlog

import (
	"errors"
	"runtime"
	"sync"
	"time"
)

// Bounds are what a Queue allows.
type Bounds struct {
	Waiting  int // the most items that may wait
	InFlight int // the most batches that may be under way
	Items    int // the most items of a batch of several runs
}

// The errors of Add.
var (
	ErrClosed = errors.New("the queue is closed")
	ErrFull   = errors.New("queue full")
)

// A Queue holds the runs that wait for a node. Its zero value must get its Bounds from Open.
type Queue[T any] struct {
	bounds Bounds

	mu     sync.Mutex
	ready  sync.Cond // a worker may find something to do, or closed is set, or the last batch has ended since
	items  []T       // of all runs; guarded by mu
	runs   []run     // guarded by mu
	busy   int       // batches under way; guarded by mu
	closed bool      // guarded by mu
}

// run is items that one caller has added together.
type run struct {
	items int
	cost  time.Duration
}

// Open sets the bounds. It comes before every other call.
func (q *Queue[T]) Open(bounds Bounds) {
	q.bounds = bounds
	q.ready.L = &q.mu
}

// Close makes Add fail, and waits until all runs are taken and all batches have ended.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
	for q.busy > 0 || len(q.runs) > 0 {
		q.ready.Wait()
	}
}

// Add adds a run, of which it copies the items. It wakes no worker: see Wake.
func (q *Queue[T]) Add(items []T, cost time.Duration) error {
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
		q.runs = append(q.runs, run{len(items), cost})
	}
	return nil
}

// Wake wakes a worker that waits in Take.
func (q *Queue[T]) Wake() { q.ready.Signal() }

// DoIfIdle calls do, which sends a batch that was not added, if the node is idle. It reports whether it was.
func (q *Queue[T]) DoIfIdle(do func()) bool {
	q.mu.Lock()
	if q.closed || q.busy > 0 || len(q.runs) > 0 {
		q.mu.Unlock()
		return false
	}
	q.busy++
	q.mu.Unlock()
	defer q.End()
	do()
	return true
}

// Take waits for runs, moves a batch of them to buf, and returns it and its cost. room returns the most cost of a batch of several
// runs. The caller sends the batch and calls End. The batch is nil when the queue is closed and empty.
func (q *Queue[T]) Take(buf []T, room func() time.Duration) (batch []T, cost time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.runs) == 0 || q.busy >= q.bounds.InFlight {
		if q.closed && len(q.runs) == 0 {
			return nil, 0
		}
		q.ready.Wait()
		if len(q.runs) > 0 {
			// Let goroutines that are about to add runs do so first: the runs go in one batch instead of two.
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
		}
	}
	batch, cost = q.moveBatch(buf[:0], room())
	q.busy++
	if len(q.runs) > 0 {
		q.ready.Signal()
	}
	return batch, cost
}

// moveBatch appends the items of the next batch to buf: those of the oldest run, and of all others that fit. It returns their cost,
// too. The caller holds mu, and there is a run.
func (q *Queue[T]) moveBatch(buf []T, room time.Duration) (batch []T, cost time.Duration) {
	from, kept, items := 0, q.runs[:0], q.items[:0]
	for i, r := range q.runs {
		run := q.items[from : from+r.items]
		from += r.items
		if i == 0 || len(buf)+r.items <= q.bounds.Items && cost+r.cost <= room {
			buf, cost = append(buf, run...), cost+r.cost
		} else {
			kept, items = append(kept, r), append(items, run...)
		}
	}
	clear(q.items[len(items):])
	q.runs, q.items = kept, items
	return buf, cost
}

// End says that a batch has ended.
func (q *Queue[T]) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	if q.closed {
		q.ready.Broadcast()
	} else if len(q.runs) > 0 {
		q.ready.Signal()
	}
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
