package redis

import (
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/split"
)

// fail ends an item that the node could not answer. What a shard of a split key is
// known not to have decided, its home decides; else the request's policy answers.
func (q *queue) fail(it *pending, why string) {
	switch {
	case it.open || it.req == nil && it.call == nil: // left to package split, or sent on
	case it.call != nil:
		it.call.Failure = &split.Failure{Shard: it.call.Shard, Why: why, MaybeApplied: it.maybeApplied}
	case it.shard > 0 && !it.maybeApplied && q.engine.elapsed()-it.at < q.engine.patience:
		q.engine.leave(it, split.Request{})
	default:
		q.engine.answerByPolicy(q, it.req, it.res, why, it.maybeApplied)
	}
}

// fail ends all items of the batch.
func (b *batch) fail(q *queue, why string) {
	for i := range b.items {
		q.fail(&b.items[i], why)
	}
}

// answerByPolicy answers a request that the node could not. Only a decision has a
// policy: anything else is an error.
func (e *Engine) answerByPolicy(q *queue, r *engine.Request, res *engine.Result, why string, maybeApplied bool) {
	if r.Op != engine.OpDecide {
		res.Err = &engine.Unavailable{Node: q.Name(), Why: why}
		return
	}
	policy := r.PolicyFor(e.config.Rules, e.config.Policy)
	e.answered[policy].Add(1)
	q.policies[policy].Add(1)
	q.report.count(q, policy, why)
	switch policy {
	case engine.PolicyError:
		res.Err = &engine.Unavailable{Node: q.Name(), Why: why}
	case engine.PolicyLocal:
		e.reconciler.decide(r, res, maybeApplied)
		if q.State() == backend.Up {
			e.reconciler.wake()
		}
	default:
		res.Decision = policy.Decide(r, q.UntilProbe())
	}
}

// report logs how often policies answered for a node: when it is back, and now and
// then when it is not down but refuses, or is slow.
type report struct {
	unsaid [engine.Policies]atomic.Int64 // answers since the last line
	next   atomic.Int64                  // when there may be another line, by the engine's own clock
}

// reportEvery is the least time between two lines about a node that is not down.
const reportEvery = 10 * time.Second

// count counts an answer by policy. While the node is in trouble nothing is logged:
// the lines that say that it is down and that it is back are enough.
func (r *report) count(q *queue, policy engine.Policy, why string) {
	r.unsaid[policy].Add(1)
	if q.State() == backend.Up {
		r.say(q, why)
	}
}

// say writes a line if there has been none for a while.
func (r *report) say(q *queue, why string) {
	now, next := int64(q.engine.elapsed()), r.next.Load()
	if now < next || !r.next.CompareAndSwap(next, now+int64(reportEvery)) {
		return
	}
	if counts := r.take(); len(counts) > 0 {
		q.engine.config.Logger.Warn("policies answer for the node", append([]any{"node", q.Name(), "why", why}, counts...)...)
	}
}

// take returns the answers since the last line, by policy, for the log.
func (r *report) take() []any {
	var out []any
	for policy := range r.unsaid {
		if n := r.unsaid[policy].Swap(0); n > 0 {
			out = append(out, engine.Policy(policy).String(), n)
		}
	}
	return out
}
