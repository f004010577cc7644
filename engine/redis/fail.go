package redis

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// fail answers an item that the node could not. If a shard of a split key is known not
// to have decided the request, the key's home decides it; otherwise its FAIL policy answers.
func (q *queue) fail(it *pending, why string) {
	switch {
	case it.open || it.req == nil && it.call == nil: // left to package split, or sent on
	case it.call != nil:
		it.call.Failure = &split.Failure{Shard: it.call.Shard, Why: why, MaybeApplied: it.maybeApplied}
	case it.multi != nil:
		q.engine.failMultiKey(q, it.multi, why, it.maybeApplied)
	case it.shard > 0 && !it.maybeApplied && q.engine.elapsed()-it.At < q.engine.patience():
		q.engine.leave(it, split.Request{})
	default:
		q.engine.answerByFail(q, it.req, it.res, why, it.maybeApplied)
	}
}

// fail answers all items of the batch.
func (b *batch) fail(why string) {
	for i := range b.items {
		b.q.fail(&b.items[i], why)
	}
}

// answerByFail answers a request that the node could not. Only decisions have a FAIL
// policy. Other operations get an error, and so does a request whose stored record is of
// no use to the node.
func (e *Engine) answerByFail(q *queue, r *engine.Request, res *engine.Result, why string, maybeApplied bool) {
	if res.Err = wire.KeyError(why); res.Err != nil {
		return
	}
	if r.Op != engine.OpDecide {
		res.Err = q.unavailable(why, maybeApplied)
		return
	}
	policy := e.policyFor(r)
	e.countPolicy(q, policy, why)
	switch policy {
	case engine.FailError:
		res.Err = q.unavailable(why, maybeApplied)
	case engine.FailLocal:
		if r.Hold != nil && r.Hold.MultiKey {
			res.Allowed = true // until decideLocally decides all keys together
			break
		}
		*res = e.reconciler.decide([]engine.Request{*r}, maybeApplied)[0]
		if q.takesWrites() {
			e.reconciler.wake()
		}
	default:
		res.Decision = policy.Decide(r, q.UntilProbe())
	}
	res.Fail = policy
}

// unavailable returns the error of a request that the node could not answer.
func (q *queue) unavailable(why string, maybeApplied bool) *engine.Unavailable {
	return &engine.Unavailable{Node: q.Name(), Why: why, MaybeApplied: maybeApplied}
}

// policyFor returns the FAIL policy of a decision. A single process does not know which leases of RL.ACQUIRE
// are held, so LOCAL denies them.
func (e *Engine) policyFor(r *engine.Request) engine.FailPolicy {
	live := e.live.Load()
	policy := r.FailPolicyFor(live.FailRules, live.Fail)
	if policy == engine.FailLocal && r.Kind == limit.Concurrency {
		return engine.FailClosed
	}
	return policy
}

// countPolicy counts an answer by policy.
func (e *Engine) countPolicy(q *queue, policy engine.FailPolicy, why string) {
	e.policies[policy].Add(1)
	q.policies[policy].Add(1)
	q.logPolicies(q.log.Count(policy, e.now(), q.Health() != backend.Up), why)
}

// contested reports whether another proxy places the request's key on another node, so
// that neither may decide it, nor end its holds.
func (e *Engine) contested(c *layout.Conflict, r *engine.Request) bool {
	return r.Op != engine.OpReset && r.Op != engine.OpInspect && c.Contested(r.Key, max(r.Shards, e.splits.Shards(r.Key)))
}

// answerContested answers a request about a contested key.
func (e *Engine) answerContested(t *topology, r *engine.Request, res *engine.Result) {
	e.layout.Answers.Add(1)
	e.answerByFail(t.Queues[t.Locate(r.Key, 0)], r, res, layout.Why, false)
}

// logPolicies logs that policies answer in place of a node that is up, because it
// refuses calls or is slow. A node that is down is logged elsewhere.
func (q *queue) logPolicies(counts []any, why string) {
	if len(counts) > 0 {
		q.engine.config.Logger.Warn("FAIL policies are answering in place of the node", append([]any{"node", q.Name(), "why", why}, counts...)...)
	}
}

// noteRefused notes that the node refused, with the error err, to run a function for a key, such as for lack of memory.
func (q *queue) noteRefused(key []byte, err error) {
	if q.refused.Swap(&refusal{string(key), lua.Locate(err.Error())}) == nil {
		q.engine.reconciler.wake()
	}
}

// noteAccepted notes that the node has run a function for r; nil: for package split. A full node still runs what admits nothing.
func (q *queue) noteAccepted(r *engine.Request) {
	if r == nil || r.Op == engine.OpDecide {
		q.refused.Store(nil)
		q.engine.reconciler.wake()
	}
}

// takesWrites reports whether the node is up and did not refuse the last call.
func (q *queue) takesWrites() bool { return q.Health() == backend.Up && q.refused.Load() == nil }
