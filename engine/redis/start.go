package redis

import (
	"slices"
	"sync"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// started is a pipeline that no goroutine waits for. The goroutine that delivers the last answer continues it.
type started struct {
	pipeline *engine.Pipeline
	to       int    // the end of the first run of requests
	done     func() // called when all results are set
	proceed  func() // Engine.proceed with the plan, created once so that Start does not allocate
}

// unflushedQueues are the queues that were given requests since the last Flush. Some may have left the
// topology since.
type unflushedQueues struct {
	mu     sync.Mutex
	queues []*queue // guarded by mu
}

// add lists a queue for the next Flush.
func (s *unflushedQueues) add(q *queue) {
	if q.unflushed.Load() {
		return // it is listed, or will be before another Flush gets mu
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !q.unflushed.Swap(true) {
		s.queues = append(s.queues, q)
	}
}

// Start implements engine.Starter. It starts no goroutine if one round trip per node answers the
// whole pipeline.
func (e *Engine) Start(p *engine.Pipeline, done func()) {
	p.Grow()
	plan := e.plans.Get().(*plan)
	plan.started.pipeline, plan.started.done = p, done
	plan.started.to = e.route(plan, p, 0)
	plan.then = plan.started.proceed
	plan.left.Store(int64(plan.asked) + 1) // one for this function, which uses the plan until it returns
	for node := range plan.byNode {
		part := &plan.byNode[node]
		if len(part.items) == 0 {
			continue
		}
		if q := plan.topology.Queues[node]; q.add(part.items, part.cost) {
			e.unflushed.add(q)
		}
		clear(part.items)
		part.items, part.cost = part.items[:0], 0
	}
	if plan.left.Add(-1) == 0 {
		e.proceed(plan)
	}
}

// Flush implements engine.Starter.
func (e *Engine) Flush() {
	s := &e.unflushed
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, q := range s.queues {
		q.unflushed.Store(false) // before the signal: a queue that is given requests later is listed again
		q.waiting.Wake()
	}
	clear(s.queues)
	s.queues = s.queues[:0]
}

// proceed continues a plan whose first run is answered.
func (e *Engine) proceed(plan *plan) {
	s, p := plan.started, plan.started.pipeline
	plan.then, plan.started.pipeline, plan.started.done = nil, nil, nil
	apart := func(m *multiKey) bool { return m.apart }
	if s.to == len(p.Requests) && !plan.opened.Load() && !slices.ContainsFunc(plan.multi, apart) {
		e.plans.Put(plan)
		s.done()
		return
	}
	go func() { // ends when all results are set
		if !backend.Guard(e.config.Logger, "answering what was started", func() { e.rest(plan, p, s.to) }) {
			for i := range p.Results {
				p.Results[i] = engine.Result{Err: &engine.Unavailable{Node: "rlproxy", Why: backend.ErrPanicked.Error(), MaybeApplied: true}}
			}
		}
		s.done()
	}()
}

// rest answers what the first run (the requests before index to) left open, and then the remaining runs.
func (e *Engine) rest(plan *plan, p *engine.Pipeline, to int) {
	from := e.complete(plan, p, 0, to)
	e.plans.Put(plan)
	e.Do(&engine.Pipeline{Requests: p.Requests[from:], Results: p.Results[from:]})
}
