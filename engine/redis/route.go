package redis

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
)

// Do implements engine.Engine. A pipeline is one run of requests that are asked at the same time, unless it is long or
// dear, or requests about a split key have to wait for others.
func (e *Engine) Do(p *engine.Pipeline) {
	p.Grow()
	plan := e.plans.Get().(*plan)
	for from := 0; from < len(p.Requests); {
		to := e.route(plan, p, from)
		e.send(plan)
		if plan.anyOpen.Load() || len(plan.multi) > 0 || to == from {
			to = e.complete(plan, p, from, to)
		}
		from = to
	}
	e.plans.Put(plan)
}

// complete answers the requests of a run that nodes have left open. It returns the index after the last answered
// request.
func (e *Engine) complete(plan *plan, p *engine.Pipeline, from, to int) int {
	if plan.anyOpen.Load() {
		e.resolve(plan.takeOpen())
	}
	if len(plan.multi) > 0 || to == from {
		to = e.compose(plan, p, from, to)
	}
	return to
}

// route plans the run of requests that begins at from, and returns where it ends. It answers requests that are known to
// be denied itself. A run for nodes to answer has at most backlog.MaxItems requests, and no more work than each node
// allows, so that nodes can answer it in time; the next one has a deadline of its own. A multi-key request that no
// single call can answer, or one whose units are held first, ends the run before it, which may leave the run empty.
func (e *Engine) route(plan *plan, p *engine.Pipeline, from int) (to int) {
	at := e.elapsed()
	plan.begin(e.queues.OpenAll())
	denied := -1 // the last request that was answered from memory
	for i := from; i < len(p.Requests); i++ {
		if plan.asked >= backlog.MaxItems {
			return i
		}
		r, res := &p.Requests[i], &p.Results[i]
		if r.MoreKeys > 0 || r.Confirm != nil {
			if r.Confirm != nil || !e.routeMultiKey(plan, p, i, at) {
				return i
			}
			i += r.MoreKeys
			continue
		}
		if r.AnswerVerdict(res) {
			continue
		}
		if denied >= 0 && denied == i-1 && r.Repeats(&p.Requests[denied]) {
			*res = p.Results[denied]
			e.denials.Repeat()
			denied = i
			continue
		}
		if e.remember && e.denials.Answer(r, at.Milliseconds(), res) {
			denied = i
			continue
		}
		if c := e.layout.Conflict.Load(); c != nil && e.contested(c, r) {
			e.answerContested(plan.topology, r, res)
			continue
		}
		if e.advances.Size.Load() > 0 && e.advances.Draw(plan.topology.Topology, r, res) {
			continue
		}
		shard := 0
		if r.Shards > 1 || r.ConcernsWholeKey() || e.splits.PossiblySplit.Load() > 0 {
			var waits, ok bool
			if shard, waits, ok = e.splits.Route(&plan.routes, r); !ok {
				return i
			}
			if waits {
				plan.leave(&split.Request{Request: r, Result: res, Sent: at.Milliseconds(), Index: i})
				continue
			}
		}
		it := item{Item: backlog.Item{At: at}, task: entry{}, req: r, res: res, shard: shard, index: i}
		if r.Op > engine.OpReset || r.Hold != nil {
			it.task = taskOf(r)
		}
		if !plan.add(plan.topology.Locate(r.Key, shard), it) {
			return i
		}
		if r.Op == engine.OpReset {
			e.Forget(r.Key)
		}
	}
	return len(p.Requests)
}

// taskOf returns the task of one request. One with an id that charges nothing is a plain decision, unless it asks for
// slots.
func taskOf(r *engine.Request) task {
	switch {
	case r.Op == engine.OpInspect:
		return inspect{}
	case r.Op > engine.OpReset, r.Hold != nil && (r.Cost > 0 || r.Kind == limit.Concurrency):
		return withID{}
	}
	return entry{}
}

// contested reports whether another proxy places the request's key on another node, so that neither may decide it, nor
// end its holds.
func (e *Engine) contested(c *layout.Conflict, r *engine.Request) bool {
	return r.Op != engine.OpReset && r.Op != engine.OpInspect &&
		c.Contested(r.Key, max(r.Shards, e.splits.Shards(r.Key)))
}

// answerContested answers a request about a contested key.
func (e *Engine) answerContested(t *lanes, r *engine.Request, res *engine.Result) {
	e.layout.Answers.Add(1)
	e.answerByFail(t.Queues[t.Locate(r.Key, 0)], r, res, layout.Why, false)
}

// resolve answers, through package split, the requests that nodes left open. FAIL policies answer those that no node
// could.
func (e *Engine) resolve(open []*split.Request) {
	e.splits.Resolve(open)
	top := e.queues.OpenAll()
	for _, r := range open {
		if f := r.Failure; f != nil {
			e.answerByFail(top.Queues[top.Locate(r.Key, f.Shard)], r.Request, r.Result, f.Why, f.MaybeApplied)
		}
	}
}
