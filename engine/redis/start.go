package redis

import "github.com/rlproxy/rlproxy/engine"

// started is a pipeline for which nobody waits: whoever brings the last answer goes on.
type started struct {
	pipeline *engine.Pipeline
	to       int    // the end of the first run of requests
	done     func() // hears when all results are there
	over     func() // Engine.over of the plan, as a value that is allocated once
}

// Start implements engine.Starter. What needs no more than one answer of each node takes no
// goroutine.
func (e *Engine) Start(p *engine.Pipeline, done func()) {
	p.Grow()
	plan := e.plans.Get().(*plan)
	plan.started.pipeline, plan.started.done = p, done
	plan.started.to = e.route(plan, p, 0)
	plan.then = plan.started.over
	plan.left.Store(int64(plan.asked) + 1) // one for this function, which uses the plan until it ends
	for node, items := range plan.byNode {
		if len(items) == 0 {
			continue
		}
		if q := plan.topology.queues[node]; q.add(items) {
			q.kept.Store(true)
		}
		clear(items)
		plan.byNode[node] = items[:0]
	}
	if plan.left.Add(-1) == 0 {
		e.over(plan)
	}
}

// Flush implements engine.Starter.
func (e *Engine) Flush() {
	for _, q := range e.topology().queues {
		if q.kept.Load() {
			q.kept.Store(false)
			q.ready.Signal()
		}
	}
}

// over goes on with a plan that has all answers of its first run.
func (e *Engine) over(plan *plan) {
	s, p := plan.started, plan.started.pipeline
	plan.then, plan.started.pipeline, plan.started.done = nil, nil, nil
	if s.to == len(p.Requests) && !plan.opened.Load() && len(plan.several) == 0 {
		e.plans.Put(plan)
		s.done()
		return
	}
	go func() { // ends when all results are there
		to := e.complete(plan, p, 0, s.to)
		e.plans.Put(plan)
		e.Do(&engine.Pipeline{Requests: p.Requests[to:], Results: p.Results[to:]})
		s.done()
	}()
}
