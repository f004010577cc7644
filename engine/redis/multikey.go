package redis

import (
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/multikey"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// multiKey is a multi-key request (AND) whose keys are all on one node, so that one call can answer it.
type multiKey struct {
	request
	requests []engine.Request // its part of the pipeline
	results  []engine.Result  // those of requests
	index    int              // of the first request in the pipeline

	// joint is set by the node's answer if the node cannot decide alone. It has charged nothing then.
	joint bool
}

func (m *multiKey) work(*item) (sum time.Duration) {
	for i := range m.requests {
		sum += wire.DecisionWork(&m.requests[i])
	}
	return sum
}

func (m *multiKey) call([]item) (f *lua.Function, args [][]byte, stored []string) {
	for i := range m.requests {
		stored = append(stored, string(shard.AppendStoredKey(nil, m.requests[i].Key, 0)))
	}
	return lua.All, wire.AllArgs(m.requests), stored
}

// fail answers a multi-key request in place of its node: the FAIL policy of the first key answers for all keys.
func (m *multiKey) fail(p *parts, q *queue, it *item, why string) {
	fail := func(r, _ *engine.Request, res *engine.Result) { p.failKey(q, r, res, why, it.maybeApplied) }
	fail(&m.requests[0], nil, &m.results[0])
	engine.FailAll(fail, m.requests, m.results, 0)
	p.decideLocally(m.requests, m.results, it.maybeApplied)
}

// wrote implements task: a key may be asked at no cost.
func (m *multiKey) wrote(*item) bool {
	for i := range m.requests {
		if m.results[i].Wrote(m.requests[i].Cost) {
			return true
		}
	}
	return false
}

// refused implements ownCall. A node that is no longer a master refuses a call about several keys.
func (m *multiKey) refused(b *batch, _ *ownCommand, err error) bool {
	m.joint = m.joint || b.q.clustered && backend.Demoted(err)
	return m.joint
}

// apply implements ownCall.
func (m *multiKey) apply(b *batch, c *ownCommand, reply string) error {
	answers, clock, all, err := wire.DecodeAll(reply, m.requests)
	if err != nil {
		return err
	}
	denied := false
	for i := range answers {
		a := &answers[i]
		switch {
		case wire.NotHere(a.Failure):
			m.joint = true
			return nil
		case a.Status == wire.Failed:
			b.q.traffic.FailedEntry(a.MaybeApplied)
			b.failItem(c.from, lua.Locate(a.Failure), a.MaybeApplied)
			return nil
		case b.learn(c.first(b), &m.requests[i], a):
			b.await(c.first(b))
			return nil
		}
		denied = denied || a.Granted == 0 && !a.Undecided
	}
	if !all && !denied { // shards must be read
		m.joint = true
		return nil
	}
	for i := range answers {
		r, a, d := m.requests[i], &answers[i], &m.results[i].Decision
		m.results[i].Lapsed = a.Lapsed
		if all || a.Granted == 0 && !a.Undecided {
			*d = r.Decide(a.Usages, clock, a.Granted, 0)
			continue
		}
		r.Cost = 0 // this key had room, or may have had, but was not charged
		*d = r.Decide(a.Usages, clock, 1, 0)
		d.Allowed = false
	}
	return nil
}

// routeMultiKey plans the multi-key request that begins with request i. It reports whether one call can answer it, in
// this run: all keys are on one node, and none is known to be split.
func (e *Engine) routeMultiKey(plan *plan, p *engine.Pipeline, i int, at time.Duration) bool {
	end := i + 1 + p.Requests[i].MoreKeys
	m := &multiKey{requests: p.Requests[i:end], results: p.Results[i:end], index: i}
	first := &m.requests[0]
	node, conflict := plan.topology.Locate(first.Key, 0), e.layout.Conflict.Load()
	for j := range m.requests {
		r := &m.requests[j]
		if r.Verdict != engine.VerdictNone || plan.topology.Locate(r.Key, 0) != node || e.splits.Splits(r) ||
			conflict != nil && e.contested(conflict, r) {
			return false
		}
	}
	if !plan.add(node, item{Item: backlog.Item{At: at}, task: m, req: first, res: &m.results[0], index: i}) {
		return false
	}
	for j := range m.requests {
		e.denials.Outdate(&m.requests[j])
	}
	plan.multi = append(plan.multi, m)
	return true
}

// compose answers, through package multikey, the multi-key requests that a single call could not answer: those that
// their node marked joint and, if the run is empty, the one that ended it. It returns the index after the last answered
// request. Requests of the run that follow one marked joint were decided before it.
func (e *Engine) compose(plan *plan, p *engine.Pipeline, from, to int) int {
	for _, m := range plan.multi {
		if m.joint {
			e.askMultiKey(p, m.index)
		}
	}
	if to == from {
		e.askMultiKey(p, from)
		to += 1 + p.Requests[from].MoreKeys
	}
	return to
}

// notInTime is the reason for an answer by FAIL policy if the nodes answered too late for a multi-key request, or a
// hold was gone before its units were charged: reset, evicted, or lapsed.
const notInTime = "the units of all keys were not held and charged in time"

// askMultiKey answers the multi-key request that begins with request i of p through package multikey.
func (e *Engine) askMultiKey(p *engine.Pipeline, i int) {
	charged := false // keys may have been charged, not only held
	multikey.Engine{Now: e.now, Do: func(p *engine.Pipeline) {
		charged = charged || p.Requests[0].Op == engine.OpSettle && p.Requests[0].Cost > 0
		e.Do(p)
	}, Fail: func(r, failed *engine.Request, res *engine.Result) {
		top := e.queues.OpenAll()
		e.failKey(top.Queues[top.Locate(failed.Key, 0)], r, res, notInTime, true)
	}}.Ask(p, i)
	end := i + 1 + p.Requests[i].MoreKeys
	e.decideLocally(p.Requests[i:end], p.Results[i:end], charged)
}

// failKey answers one key of a multi-key request by its FAIL policy. FAIL LOCAL is left to decideLocally.
func (p *parts) failKey(q *queue, r *engine.Request, res *engine.Result, why string, maybeApplied bool) {
	part := *r
	part.Hold = &engine.Hold{MultiKey: true}
	p.answerByFail(q, &part, res, why, maybeApplied)
}

// decideLocally decides a multi-key request if FAIL LOCAL answers it: all keys together, all or nothing.
func (p *parts) decideLocally(requests []engine.Request, results []engine.Result, maybeApplied bool) {
	if results[0].Fail != engine.FailLocal {
		return
	}
	copy(results, p.local.Decide(slices.Clone(requests), maybeApplied))
	if slices.ContainsFunc(p.queues.OpenAll().Queues, (*queue).TakesWrites) {
		p.local.Wake()
	}
}
