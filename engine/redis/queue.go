package redis

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/resets"
)

// inFlight is the number of batches that a node may have under way. Requests that arrive
// while they are wait and become the next batch: the busier the node, the larger its
// batches. Two keep the node busy while this process reads the answers to the last one.
const inFlight = 2

// batchItems is the most items of a batch, and of one run of a pipeline.
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
	resets    resets.Listener
	scripted  atomic.Bool // the node refuses functions: the library runs there as a script

	// loadFailure is the last time that the node failed to load or run the library; nil if it never did.
	loadFailure atomic.Pointer[loadFailure]
	refused     atomic.Pointer[refusal] // of the last call, if the node refused it, else nil

	waiting   backlog.Queue[pending]
	allowance allowance
	unflushed atomic.Bool           // items may wait for Flush
	spare     atomic.Pointer[batch] // for the next caller that asks the node itself
	workers   sync.WaitGroup
	closing   sync.Once
}

// openQueue returns the queue of a node, and starts its workers.
func openQueue(e *Engine, n *backend.Node) *queue {
	q := &queue{Node: n, engine: e, client: n.Client(), clustered: n.Clustered(), doing: "asking " + n.Name()}
	q.waiting.Open(backlog.Bounds{Waiting: e.config.MaxQueue, InFlight: inFlight, Items: batchItems})
	q.allowance.open()
	if q.client == nil {
		return q // absent: it is down for good, so nothing is queued
	}
	q.resets.Open(n, e.forget, e.denials.ForgetAll, e.config.Logger)
	for range inFlight {
		q.workers.Add(1)
		go q.work() // until close
	}
	return q
}

// close answers what is queued, and ends the workers. It may be called again.
func (q *queue) close() error {
	q.waiting.Close()
	q.workers.Wait()
	if q.client != nil {
		q.closing.Do(q.resets.Close)
	}
	return nil
}

// room returns the most cost of a batch: that of a run, and a quarter of it for cheap ones beside it.
func (q *queue) room() time.Duration { return q.allowance.load() * 5 / 4 }

// submit adds items that belong to one pipeline, and wakes a worker for them.
func (q *queue) submit(items []pending, cost time.Duration) {
	if q.add(items, cost) {
		q.waiting.Wake()
	}
}

// add adds items that belong to one pipeline, or answers them at once and returns false if
// the node is down or its queue is full. It copies the items.
func (q *queue) add(items []pending, cost time.Duration) bool {
	why := ""
	if q.Down() {
		why = q.Reason()
	} else {
		switch err := q.waiting.Add(items, cost); {
		case err == nil:
			return true
		case errors.Is(err, backlog.ErrClosed):
			why = "the node has left the topology"
		default:
			why = "queue full"
			q.traffic.overflows.Add(int64(len(items)))
		}
	}
	failed := 0
	if !backend.Guard(q.engine.config.Logger, q.doing, func() {
		for ; failed < len(items); failed++ {
			q.fail(&items[failed], why)
		}
	}) {
		q.failAfterPanic(items[failed:])
	}
	notify(items)
	return false
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

func (q *queue) work() {
	defer q.workers.Done()
	b := batch{q: q}
	for {
		b.items, b.cost = q.waiting.Take(b.items, q.room)
		if b.items == nil {
			return
		}
		q.answer(&b)
		q.waiting.End()
	}
}

// answer serves a batch and notifies the pipelines that wait. After a panic, FAIL
// policies answer the batch, and the process goes on.
func (q *queue) answer(b *batch) {
	items := b.items
	if !backend.Guard(q.engine.config.Logger, q.doing, func() { q.serve(b) }) {
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
		if !backend.Guard(q.engine.config.Logger, q.doing, func() { q.fail(it, why) }) && it.res != nil {
			it.res.Err = q.unavailable(why, it.maybeApplied)
		}
	}
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
	b.count()
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
	if len(b.cmds) == 1 {
		_ = q.client.Process(ctx, b.cmds[0])
	} else {
		pipe := q.client.Pipeline()
		for _, cmd := range b.cmds {
			_ = pipe.Process(ctx, cmd)
		}
		_, _ = pipe.Exec(ctx)
	}
	b.ended = q.engine.elapsed()
	q.traffic.roundTrips.Add(b.ended-began, 1)
	if !q.engine.steady {
		q.allowance.observe(b.cost, began, b.ended)
	}
}

const (
	leastAllowance = 2 * entryCost
	mostAllowance  = batchItems / 4 * entryCost

	// slowBatch is how long a node may work for a batch before its allowance falls.
	slowBatch = 2 * time.Millisecond

	// judgedCost is the cost from which on a batch changes the allowance. A batch of less may have waited for other batches of the
	// node, or for the machine, unless it costs half of the allowance.
	judgedCost = time.Millisecond
)

// allowance is the most cost of a run for a node. At first, and nearly always, that is mostAllowance, so that long pipelines take few
// round trips. Each slow batch lowers it, because what is stored makes requests dear, down to that of two requests. Each other batch
// raises it a little. Batches of few requests do neither.
type allowance struct {
	cost     atomic.Int64 // ns
	ended    atomic.Int64 // when the last batch ended, in ns of the engine's own clock
	distance atomic.Int64 // ns of the way to the node and back: the shortest round trip, of which older ones are forgotten slowly
}

func (a *allowance) open() {
	a.cost.Store(int64(mostAllowance))
	a.distance.Store(int64(time.Hour)) // until the first batch has ended
}

// load returns the most cost of a run.
func (a *allowance) load() time.Duration { return time.Duration(a.cost.Load()) }

// observe adjusts the allowance to a batch that has ended. Times are those of the engine's own clock. Batches may overlap: the node
// has worked for the last one until that was on its way back.
func (a *allowance) observe(cost, began, ended time.Duration) {
	before := time.Duration(a.ended.Swap(int64(ended)))
	was := time.Duration(a.distance.Load())
	distance := min(was+was/1024, ended-began)
	a.distance.Store(int64(distance))
	now, worked := time.Duration(a.cost.Load()), min(ended-began-distance, ended-before)
	switch {
	case cost < min(now/2, judgedCost):
		return
	case worked > slowBatch:
		now = max(now*slowBatch/worked, leastAllowance)
	default:
		now = min(now+now/16, mostAllowance)
	}
	a.cost.Store(int64(now))
}
