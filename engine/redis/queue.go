package redis

import (
	"errors"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/library"
	"github.com/rlproxy/rlproxy/engine/resets"
	"github.com/rlproxy/rlproxy/engine/traffic"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

// lanes are the nodes in use, each with its queue.
type lanes = backend.Lanes[*queue]

// A queue holds the items that wait for one node, and what is known of the node.
type queue struct {
	*backend.Node
	parts     *parts
	clustered bool   // the node is one of a Redis Cluster
	doing     string // what it does, for the log line of a panic
	loader    library.Loader
	log       *episodes.Episode // of FAIL policies that answer in the node's place
	traffic   traffic.Counters
	resets    resets.Listener

	waiting backlog.Queue[item]
	closing sync.Once
}

// openQueue returns the queue of a node, which listens for resets.
func openQueue(p *parts, n *backend.Node) *queue {
	q := &queue{Node: n, parts: p, clustered: n.Clustered(), doing: "asking " + n.Name()}
	q.log = episodes.New(p.logger, func() time.Time { return p.now() }, backend.AnsweredInPlace, "node", n.Name())
	q.waiting.Open(backlog.Bounds{Waiting: p.maxQueue, Least: wire.LeastAllowance, Most: wire.MostAllowance},
		func() backlog.Carrier[item] { return &batch{parts: p, q: q} })
	if n.Client() != nil { // else it is down for good, so nothing is queued
		q.resets.Open(n, &p.Effects, p.logger)
	}
	return q
}

// Close answers what is queued, and ends the workers. It may be called again.
func (q *queue) Close() error {
	q.waiting.Close()
	if q.Client() != nil {
		q.closing.Do(q.resets.Close)
	}
	return nil
}

// submit adds items that belong to one pipeline, and wakes a worker for them.
func (q *queue) submit(items []item, work time.Duration) {
	if q.add(items, work) {
		q.waiting.Wake()
	}
}

// submitAgain submits items that have not run, as one run, so that a pipeline's requests about a key keep their order.
func (q *queue) submitAgain(items []item) {
	work := time.Duration(0)
	for i := range items {
		work += items[i].task.work(&items[i])
	}
	q.submit(items, work)
}

// add adds items that belong to one pipeline, or answers them at once and returns false if the node is down or its
// queue is full. It copies the items.
func (q *queue) add(items []item, work time.Duration) bool {
	why := ""
	if q.Down() {
		why = q.Reason()
	} else {
		err := q.waiting.Add(items, work)
		if err == nil {
			return true
		}
		if errors.Is(err, backlog.ErrFull) {
			q.traffic.Overflows.Add(int64(len(items)))
		}
		why = err.Error()
	}
	failed := 0
	if !backend.Guard(q.parts.logger, q.doing, func() {
		for ; failed < len(items); failed++ {
			q.fail(&items[failed], why)
		}
	}) {
		q.failAfterPanic(items[failed:])
	}
	notify(items)
	return false
}

// fail answers an item that the node could not.
func (q *queue) fail(it *item, why string) {
	if !it.open { // else it is left to package split
		it.task.fail(q.parts, q, it, why)
	}
}

// failAfterPanic answers items by FAIL policy, or with an error if that panics too.
func (q *queue) failAfterPanic(items []item) {
	why := backend.ErrPanicked.Error()
	for i := range items {
		it := &items[i]
		it.maybeApplied = true
		if !backend.Guard(q.parts.logger, q.doing, func() { q.fail(it, why) }) && it.res != nil {
			it.res.Err = q.unavailable(why, it.maybeApplied)
		}
	}
}
