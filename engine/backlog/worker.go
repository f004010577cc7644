package backlog

import (
	"runtime"
	"sync/atomic"
	"time"
)

// A Carrier takes the batches of one worker to the node.
type Carrier[T any] interface {
	// Serve sends a batch to the node, and returns when all of its items have been answered, or were added to another
	// queue. It may modify items, and must not keep it.
	Serve(items []T, work time.Duration)
}

// worker is a carrier and the memory of its batches.
type worker[T any] struct {
	Carrier[T]
	batch []T
}

func (q *Queue[T]) newWorker() *worker[T] { return &worker[T]{Carrier: q.carrier()} }

// startWorkers starts workers, unless there are enough to have InFlight batches under way. The caller holds mu.
func (q *Queue[T]) startWorkers() {
	for ; q.started < InFlight+q.aside; q.started++ {
		q.workers.Go(q.serve) // until Close
	}
}

func (q *Queue[T]) serve() {
	w := q.newWorker()
	for {
		work, ok := q.take(w)
		if !ok {
			return
		}
		w.Serve(w.batch, work)
		clear(w.batch)
		q.end()
	}
}

// take waits for runs, moves a batch of them to the worker, and returns its work. It returns false when the queue is
// closed and empty.
func (q *Queue[T]) take(w *worker[T]) (work time.Duration, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.runs) == 0 || q.busy >= InFlight {
		if q.closed && len(q.runs) == 0 {
			return 0, false
		}
		q.ready.Wait()
		if len(q.runs) > 0 {
			// Let goroutines that are about to add runs do so first: the runs go in one batch instead of two.
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
		}
	}
	w.batch, work = q.moveBatch(w.batch[:0])
	q.busy++
	if len(q.runs) > 0 {
		q.ready.Signal()
	}
	return work, true
}

// end says that a batch has ended.
func (q *Queue[T]) end() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
	if q.closed {
		q.ready.Broadcast()
	} else if len(q.runs) > 0 {
		q.ready.Signal()
	}
}

// ServeIfIdle serves a run that was not added, on the goroutine of the caller, if the node is idle. It reports whether
// it was.
func (q *Queue[T]) ServeIfIdle(items []T, work time.Duration) bool {
	q.mu.Lock()
	if q.closed || q.busy > 0 || len(q.runs) > 0 {
		q.mu.Unlock()
		return false
	}
	q.busy++
	q.mu.Unlock()
	defer q.end()
	w := q.spare.Swap(nil)
	if w == nil {
		w = q.newWorker()
	}
	w.batch = append(w.batch[:0], items...)
	w.Serve(w.batch, work)
	clear(w.batch)
	q.spare.Store(w)
	return true
}

// StepAside makes another worker take the place of the caller, which serves a batch and is going to wait for something
// other than the node. It returns false if too many do. Otherwise the caller calls StepBack when it has waited.
func (q *Queue[T]) StepAside() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.aside == q.bounds.Aside {
		return false
	}
	q.aside++
	q.busy--
	q.startWorkers()
	q.ready.Broadcast() // for a worker, and for Close
	return true
}

// StepBack ends the wait of a worker. Until one of the batches under way has ended, there may be more than InFlight.
func (q *Queue[T]) StepBack() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.aside--
	q.busy++
}

const (
	// slowBatch is how long a node may work for a batch before its allowance falls.
	slowBatch = 2 * time.Millisecond

	// judgedWork is the work from which on a batch changes the allowance. A batch of less may have waited for other
	// batches of the node, or for the machine, unless it costs half of the allowance.
	judgedWork = time.Millisecond
)

// allowance is the most work of a run for a node. At first, and nearly always, that is Bounds.Most, so that long
// pipelines take few round trips. Each slow batch lowers it, because what is stored makes requests dear, down to
// Bounds.Least. Each other batch raises it a little. Batches of few requests do neither.
type allowance struct {
	bounds Bounds
	work   atomic.Int64 // ns
	ended  atomic.Int64 // when the last batch ended, in ns of the user's clock
	// ns of the way to the node and back: the shortest round trip, of which older ones are forgotten slowly
	distance atomic.Int64
}

func (a *allowance) set(bounds Bounds) {
	a.bounds = bounds
	a.work.Store(int64(bounds.Most))
	a.distance.Store(int64(time.Hour)) // until the first batch has ended
}

// Allowance returns the most work of a run.
func (a *allowance) Allowance() time.Duration { return time.Duration(a.work.Load()) }

// Observe adjusts the allowance to a batch of that work that has ended. Times are those of the user's clock. Batches
// may overlap: the node has worked for the last one until that was on its way back.
func (a *allowance) Observe(work, began, ended time.Duration) {
	before := time.Duration(a.ended.Swap(int64(ended)))
	was := time.Duration(a.distance.Load())
	distance := min(was+was/1024, ended-began)
	a.distance.Store(int64(distance))
	now, worked := time.Duration(a.work.Load()), min(ended-began-distance, ended-before)
	switch {
	case work < min(now/2, judgedWork):
		return
	case worked > slowBatch:
		now = max(now*slowBatch/worked, a.bounds.Least)
	default:
		now = min(now+now/16, a.bounds.Most)
	}
	a.work.Store(int64(now))
}
