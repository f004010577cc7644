package redis

import (
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/split"
)

// forget forgets a key that was reset.
func (e *Engine) forget(key []byte) {
	e.denials.Forget(key)
	e.reconciler.forget(key)
}

// recovered is called by the fleet when a node answers again.
func (e *Engine) recovered(n *backend.Node, was backend.Health) {
	if q, ok := e.queues.Opened(n); ok && was == backend.Suspect {
		q.logPolicies(q.log.Line(e.now()), n.Reason())
	}
	e.reconciler.wake()
}

// report returns, for the log, how often policies answered in place of a node that is
// down or has just recovered.
func (e *Engine) report(n *backend.Node) []any {
	switch q, ok := e.queues.Opened(n); {
	case !ok:
		return nil
	case n.Down():
		return q.log.Counts()
	default:
		return q.log.Take()
	}
}

// Topology implements split.Nodes.
func (e *Engine) Topology() *backend.Topology { return e.fleet.Topology() }

// Call implements split.Nodes. If the node is idle, the caller sends the calls itself.
func (e *Engine) Call(key []byte, calls []*split.Call) {
	plan := e.plans.Get().(*plan)
	plan.begin(e.queues.OpenAll())
	now := e.elapsed()
	for _, c := range calls {
		at := now
		if c.Sent > 0 {
			at = min(at, time.Duration(c.Sent)*time.Millisecond)
		}
		node, it := plan.topology.Locate(key, c.Shard), pending{Item: backlog.Item{At: at}, call: c, key: key, shard: c.Shard, single: true}
		if !plan.add(node, it) {
			e.send(plan)
			plan.begin(e.queues.OpenAll())
			plan.add(plan.topology.Locate(key, c.Shard), it)
		}
	}
	e.send(plan)
	e.plans.Put(plan)
}

// Post implements split.Nodes.
func (e *Engine) Post(key []byte, c *split.Call) {
	top := e.queues.OpenAll()
	it := pending{Item: backlog.Item{At: e.elapsed()}, call: c, key: key, shard: c.Shard, single: true}
	top.Queues[top.Locate(key, c.Shard)].submit([]pending{it}, it.cost())
}

// resolve answers, through package split, the requests that nodes left open. FAIL policies
// answer those that no node could.
func (e *Engine) resolve(open []*split.Request) {
	e.splits.Resolve(open)
	top := e.queues.OpenAll()
	for _, r := range open {
		if f := r.Failure; f != nil {
			q := top.Queues[top.Locate(r.Key, f.Shard)]
			e.answerByFail(q, r.Request, r.Result, f.Why, f.MaybeApplied)
		}
	}
}

// leave leaves an item to package split, once.
func (e *Engine) leave(it *pending, r split.Request) {
	if it.open {
		return
	}
	it.open = true
	r.Request, r.Result, r.Index, r.Sent = it.req, it.res, it.index, it.At.Milliseconds()
	it.wait.leave(&r)
}
