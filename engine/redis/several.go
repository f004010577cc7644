package redis

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/joint"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// A question is a multi-key request (AND) whose keys are all on one node, so that one call can answer it.
type question struct {
	requests []engine.Request // its part of the pipeline
	results  []engine.Result  // those of requests
	index    int              // of the first request in the pipeline

	// apart is set by the node's answer if the node cannot decide alone. It has charged nothing then.
	apart bool
}

// stored returns the stored keys.
func (s *question) stored() (keys []string) {
	for i := range s.requests {
		keys = append(keys, string(shard.AppendStoredKey(nil, s.requests[i].Key, 0)))
	}
	return keys
}

// routeSeveral plans the multi-key request that begins with request i. It reports whether one call can
// answer it: all keys are on one node, and none is known to be split.
func (e *Engine) routeSeveral(plan *plan, p *engine.Pipeline, i int, at time.Duration) bool {
	s := &question{requests: p.Requests[i : i+1+p.Requests[i].With], results: p.Results[i : i+1+p.Requests[i].With], index: i}
	first := &s.requests[0]
	node, conflict := plan.topology.Locate(first.Key, 0), e.layout.Conflict.Load()
	for j := range s.requests {
		r := &s.requests[j]
		if r.Verdict != engine.VerdictNone || plan.topology.Locate(r.Key, 0) != node || e.splits.Splits(r) ||
			conflict != nil && e.contested(conflict, r) {
			return false
		}
	}
	plan.byNode[node] = append(plan.byNode[node], pending{
		req: first, res: &s.results[0], several: s, wait: &plan.waiter, at: at, index: i, alone: true,
	})
	plan.asked++
	plan.several = append(plan.several, s)
	return true
}

// compose answers, through package joint, the multi-key requests that a single call could not answer: those
// that their node marked apart and, if the run is empty, the one that ended it. It returns the index after
// the last answered request.
func (e *Engine) compose(plan *plan, p *engine.Pipeline, from, to int) int {
	composed := joint.Engine{Do: e.Do, Now: e.now, Fail: func(r *engine.Request, res *engine.Result) {
		top := e.topology() // the nodes may have charged the request
		e.answerByFail(top.queues[top.Locate(r.Key, 0)], r, res, backend.NoAnswer, true)
	}}
	for _, s := range plan.several {
		if s.apart {
			composed.Ask(p, s.index)
		}
	}
	if to == from {
		composed.Ask(p, from)
		to += 1 + p.Requests[from].With
	}
	return to
}

// applySeveral sets the results of a multi-key request.
func (b *batch) applySeveral(q *queue, it *pending, reply string) error {
	s := it.several
	answers, clock, all, err := wire.DecodeAll(reply, s.requests)
	if err != nil {
		return err
	}
	denied := false
	for i := range answers {
		a := &answers[i]
		switch {
		case a.NotHere():
			s.apart = true
			return nil
		case a.Status == wire.Failed:
			q.fail(it, lua.Locate(a.Failure))
			return nil
		}
		q.engine.learn(&s.requests[i], a)
		denied = denied || a.Granted == 0 && !a.Undecided
	}
	if !all && !denied { // shards must be read
		s.apart = true
		return nil
	}
	for i := range answers {
		r, a, d := s.requests[i], &answers[i], &s.results[i].Decision
		if all || a.Granted == 0 {
			*d = r.Decide(a.Usages, clock, a.Granted, 0)
			continue
		}
		r.Cost = 0 // this key had room, but was not charged
		*d = r.Decide(a.Usages, clock, 1, 0)
		d.Allowed = false
	}
	return nil
}

// failSeveral answers a multi-key request in place of its node: the FAIL policy of the first key answers for
// all keys.
func (e *Engine) failSeveral(q *queue, s *question, why string, maybeApplied bool) {
	fail := func(r *engine.Request, res *engine.Result) { e.answerByFail(q, r, res, why, maybeApplied) }
	fail(&s.requests[0], &s.results[0])
	joint.FailAll(fail, s.requests, s.results, 0)
}
