package redis

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/resets"
)

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
	unflushed atomic.Bool // items may wait for Flush
	closing   sync.Once
}

// openQueue returns the queue of a node, which listens for resets.
func (e *Engine) openQueue(n *backend.Node) *queue {
	q := &queue{Node: n, engine: e, client: n.Client(), clustered: n.Clustered(), doing: "asking " + n.Name()}
	q.waiting.Open(backlog.Bounds{Waiting: e.config.MaxQueue, Least: leastAllowance, Most: mostAllowance},
		func() backlog.Carrier[pending] { return &batch{q: q} })
	if q.client != nil { // else it is down for good, so nothing is queued
		q.resets.Open(n, e.forget, e.denials.ForgetAll, e.config.Logger)
	}
	return q
}

// Close answers what is queued, and ends the workers. It may be called again.
func (q *queue) Close() error {
	q.waiting.Close()
	if q.client != nil {
		q.closing.Do(q.resets.Close)
	}
	return nil
}

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
		err := q.waiting.Add(items, cost)
		if err == nil {
			return true
		}
		if errors.Is(err, backlog.ErrFull) {
			q.traffic.overflows.Add(int64(len(items)))
		}
		why = err.Error()
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
