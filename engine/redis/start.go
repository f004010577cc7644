package redis

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// started is a pipeline that no goroutine waits for. The goroutine that delivers the last answer continues it.
type started struct {
	pipeline *engine.Pipeline
	to       int    // the end of the first run of requests
	done     func() // called when all results are set
	proceed  func() // Engine.proceed with the plan, made once so that Start does not allocate
}

// Start implements engine.Starter. It starts no goroutine if one round trip per node answers the whole pipeline.
func (e *Engine) Start(p *engine.Pipeline, done func()) {
	p.Grow()
	plan := e.plans.Get().(*plan)
	if plan.started.proceed == nil {
		plan.started.proceed = func() { e.proceed(plan) }
	}
	plan.started.pipeline, plan.started.done = p, done
	plan.started.to = e.route(plan, p, 0)
	plan.then = plan.started.proceed
	plan.left.Store(int64(plan.asked) + 1) // one for this function, which uses the plan until it returns
	for node := range plan.byNode {
		part := &plan.byNode[node]
		if len(part.items) == 0 {
			continue
		}
		if q := plan.topology.Queues[node]; q.add(part.items, part.work) {
			e.held.Hold(&q.waiting)
		}
		clear(part.items)
		part.items, part.work = part.items[:0], 0
	}
	if plan.left.Add(-1) == 0 {
		e.proceed(plan)
	}
}

// Flush implements engine.Starter.
func (e *Engine) Flush() { e.held.Wake() }

// proceed continues a plan whose first run is answered.
func (e *Engine) proceed(plan *plan) {
	s, p := plan.started, plan.started.pipeline
	plan.then, plan.started.pipeline, plan.started.done = nil, nil, nil
	joint := func(m *multiKey) bool { return m.joint }
	if s.to == len(p.Requests) && !plan.anyOpen.Load() && !slices.ContainsFunc(plan.multi, joint) {
		e.plans.Put(plan)
		s.done()
		return
	}
	go func() { // ends when all results are set
		backend.GuardAnswers(e.logger, "answering what was started", p, func() { e.rest(plan, p, s.to) })
		s.done()
	}()
}

// rest answers what the first run (the requests before index to) left open, and then the remaining runs.
func (e *Engine) rest(plan *plan, p *engine.Pipeline, to int) {
	from := e.complete(plan, p, 0, to)
	e.plans.Put(plan)
	e.Do(&engine.Pipeline{Requests: p.Requests[from:], Results: p.Results[from:]})
}
