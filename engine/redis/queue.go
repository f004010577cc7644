package redis

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// inFlight is the number of batches that a node may have under way. Requests that arrive
// while they are wait and become the next batch: the busier the node, the larger its
// batches. Two keep the node busy while this process reads the answers to the last one.
const inFlight = 2

// batchItems is the number of items after which a batch is closed, and the most of one run
// of a pipeline. Runs are not divided, so a batch may have nearly twice as many.
const batchItems = 1024

// A queue holds the requests that are waiting for one node, and runs the workers that
// send them.
type queue struct {
	*backend.Node
	engine    *Engine
	clustered bool                              // the node is one of a Redis Cluster
	client    *redis.Client                     // the node's
	doing     string                            // what it does, for the log line of a panic
	policies  [engine.FailPolicies]atomic.Int64 // answers by policy, for INFO
	log       engine.FailLog
	traffic   traffic
	resets    resetListener
	scripted  atomic.Bool // the node refuses functions: the library runs there as a script

	// loadFailure is the last time that the node failed to load or run the library; nil if it never did.
	loadFailure atomic.Pointer[loadFailure]
	refused     atomic.Pointer[refusal] // of the last call, if the node refused it, else nil

	mu        sync.Mutex
	ready     sync.Cond   // a worker may find something to do, or closed is set
	items     []pending   // guarded by mu
	unflushed atomic.Bool // items may wait for Flush
	busy      int         // batches under way, guarded by mu
	spare     *batch      // for the next caller of runInline, guarded by mu
	closed    bool        // guarded by mu

	workers sync.WaitGroup // the workers, and callers in runInline
}

// openQueue returns the queue of a node, and starts its workers.
func openQueue(e *Engine, n *backend.Node) *queue {
	q := &queue{Node: n, engine: e, client: n.Client(), clustered: n.Clustered(), doing: "asking " + n.Name()}
	q.ready.L = &q.mu
	if q.client == nil {
		return q // absent: it is down for good, so nothing is queued
	}
	q.resets.open(n, &e.denials, e.reconciler, e.config.Logger)
	for range inFlight {
		q.workers.Add(1)
		go q.work() // until close
	}
	return q
}

// close answers what is queued, and ends the workers. It may be called again.
func (q *queue) close() error {
	q.mu.Lock()
	closed := q.closed
	q.closed = true
	q.ready.Broadcast()
	q.mu.Unlock()
	q.workers.Wait()
	if !closed && q.client != nil {
		q.resets.close()
	}
	return nil
}

// submit adds items that belong to one pipeline, and wakes a worker for them.
func (q *queue) submit(items []pending) {
	if q.add(items) {
		q.ready.Signal()
	}
}

// add adds items that belong to one pipeline, or answers them at once and returns false if
// the node is down or its queue is full. It copies the items.
func (q *queue) add(items []pending) bool {
	why := ""
	if q.Down() {
		why = q.Reason()
	} else {
		q.mu.Lock()
		switch {
		case q.closed:
			why = "the node has left the topology"
		case len(q.items)+len(items) > q.engine.config.MaxQueue:
			why = "queue full"
			q.traffic.overflows.Add(int64(len(items)))
		default:
			q.items = append(q.items, items...)
		}
		q.mu.Unlock()
	}
	if why == "" {
		return true
	}
	failed := 0
	if !q.guard(func() {
		for ; failed < len(items); failed++ {
			q.fail(&items[failed], why)
		}
	}) {
		q.failAfterPanic(items[failed:])
	}
	notify(items)
	return false
}

// runInline executes items on the caller's goroutine when the node is idle, which
// saves two wake-ups. Otherwise it submits them. The caller waits for the answers in
// either case.
func (q *queue) runInline(items []pending) {
	q.mu.Lock()
	if q.closed || q.busy > 0 || len(q.items) > 0 {
		q.mu.Unlock()
		q.submit(items)
		return
	}
	q.busy++
	q.workers.Add(1)
	b := q.spare
	q.spare = nil
	q.mu.Unlock()
	if b == nil {
		b = &batch{q: q}
	}
	b.items = append(b.items[:0], items...)
	q.answer(b)
	q.mu.Lock()
	q.busy--
	q.spare = b
	if len(q.items) > 0 {
		q.ready.Signal()
	}
	q.mu.Unlock()
	q.workers.Done()
}

// notify notifies the pipelines of items that have their results, or were left open.
// The results must be written before: waiting goroutines may use them afterwards.
func notify(items []pending) {
	for len(items) > 0 {
		w, i := items[0].wait, 1
		for i < len(items) && items[i].wait == w {
			i++
		}
		switch {
		case w == nil: // nobody waits, or the item was redirected to another node
		case w.left.Add(int64(-i)) != 0:
		case w.then != nil:
			w.then()
		default:
			w.done <- struct{}{}
		}
		items = items[i:]
	}
}

// take waits for items and moves them to buf: whole runs, so that no two batches
// carry parts of the same one. It returns nil when the queue is closed and empty.
func (q *queue) take(buf []pending) []pending {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.items) == 0 || q.busy >= inFlight {
		if q.closed && len(q.items) == 0 {
			q.ready.Broadcast() // another worker may have waited for its turn
			return nil
		}
		q.ready.Wait()
		if len(q.items) > 0 {
			// Let goroutines that are about to submit requests do so first: the requests
			// go in one batch instead of two.
			q.mu.Unlock()
			runtime.Gosched()
			q.mu.Lock()
		}
	}
	end := min(batchItems, len(q.items))
	for end < len(q.items) && q.items[end].wait == q.items[end-1].wait {
		end++
	}
	buf = append(buf[:0], q.items[:end]...)
	rest := copy(q.items, q.items[end:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	q.busy++
	if rest > 0 {
		q.ready.Signal()
	}
	return buf
}

func (q *queue) work() {
	defer q.workers.Done()
	b := batch{q: q}
	for {
		items := q.take(b.items)
		if items == nil {
			return
		}
		b.items = items
		q.answer(&b)
		q.mu.Lock()
		q.busy--
		q.mu.Unlock()
	}
}

// answer serves a batch and notifies the pipelines that wait. After a panic, FAIL
// policies answer the batch, and the process goes on.
func (q *queue) answer(b *batch) {
	items := b.items
	if !q.guard(func() { q.serve(b) }) {
		left := slices.Concat(slices.Collect(maps.Values(b.redirected))...)
		*b = batch{q: q, items: slices.Concat(b.items, b.misrouted, left, b.late)}
		q.failAfterPanic(b.items)
	}
	notify(b.items)
	clear(items)
}

// failAfterPanic answers items by policy, or with an error if that panics too.
func (q *queue) failAfterPanic(items []pending) {
	why := backend.ErrPanicked.Error()
	for i := range items {
		it := &items[i]
		it.maybeApplied = true
		if !q.guard(func() { q.fail(it, why) }) && it.res != nil {
			it.res.Err = q.unavailable(why, it.maybeApplied)
		}
	}
}

// guard runs do. It logs a panic and returns false.
func (q *queue) guard(do func()) (ok bool) {
	return backend.Guard(q.engine.config.Logger, q.doing, do)
}

// serve gives every item of the batch its result. It returns by the deadline of the
// oldest item, give or take the time to write and read.
func (q *queue) serve(b *batch) {
	e := q.engine
	if q.Down() {
		b.fail(q.Reason())
		return
	}
	b.sent, b.resets = e.elapsed(), e.denials.Resets()
	timeout := e.fleet.Timeout()
	oldest := b.dropLate(timeout - timeout/backend.LastPart)
	if len(b.items) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), e.opened.Add(oldest+timeout))
	defer cancel()
	clock := ""
	if e.clock != nil {
		clock = strconv.FormatInt(e.clock(), 10)
	}
	b.build(ctx, clock)
	q.traffic.countBatch(b)
	q.exec(ctx, b)
	// A node without the library has not run what it refused for that. It may lose
	// the library again and again.
	for try := 1; b.collect(try == loadTries); try++ {
		b.rebuild(ctx, clock)
		q.exec(ctx, b)
	}
	if len(b.misrouted)+len(b.redirected) > 0 {
		b.resubmit()
	}
}

// dropLate takes out the items that have waited for longer than patience, and answers them by
// policy at once: the deadline of the oldest item is that of the whole batch. It returns when
// the oldest of the others was submitted.
func (b *batch) dropLate(patience time.Duration) (oldest time.Duration) {
	kept := b.items[:0]
	oldest = b.sent
	for _, it := range b.items {
		if b.sent-it.at < patience {
			oldest = min(oldest, it.at)
			kept = append(kept, it)
		} else {
			b.late = append(b.late, it)
		}
	}
	b.items = kept
	for ; len(b.late) > 0; b.late = b.late[1:] {
		b.q.traffic.overflows.Add(1)
		b.q.fail(&b.late[0], "not sent: too little of backend-timeout was left")
		notify(b.late[:1])
	}
	return oldest
}

// loadTries is how often a batch is sent to a node that does not have the library: as it is,
// after loading functions, after loading a script, and once more if the node has just lost it.
const loadTries = 4

// exec sends the batch's commands to the node in one write. Errors are the commands' own.
func (q *queue) exec(ctx context.Context, b *batch) {
	q.Batches.Add(1)
	began := q.engine.elapsed()
	if len(b.list) == 1 {
		_ = q.client.Process(ctx, b.list[0])
	} else {
		pipe := q.client.Pipeline()
		for _, cmd := range b.list {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}
	b.ended = q.engine.elapsed()
	q.traffic.roundTrips.Add(b.ended-began, 1)
}
