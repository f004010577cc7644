package redis

import (
	"context"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// answerByFail answers a request that the node could not. Only decisions have a FAIL policy. Other operations get an
// error, and so does a request whose stored record is of no use to the node.
func (p *parts) answerByFail(q *queue, r *engine.Request, res *engine.Result, why string, maybeApplied bool) {
	if res.Err = wire.KeyError(why); res.Err != nil {
		return
	}
	if r.Op != engine.OpDecide {
		res.Err = q.unavailable(why, maybeApplied)
		return
	}
	fail := p.failFor(r)
	p.failed[fail].Add(1)
	q.traffic.FailAnswers[fail].Add(1)
	if q.Health() == backend.Up {
		q.log.Note(fail.String(), 1, func() []any { return []any{"why", why} })
	} else {
		q.log.Count(fail.String(), 1) // the lines about the node have the counts
	}
	switch fail {
	case engine.FailError:
		res.Err = q.unavailable(why, maybeApplied)
	case engine.FailLocal:
		if r.Hold != nil && r.Hold.MultiKey {
			res.Allowed = true // until decideLocally decides all keys together
			break
		}
		*res = p.local.Decide([]engine.Request{*r}, maybeApplied)[0]
		fail = res.Fail
		if q.TakesWrites() {
			p.local.Wake()
		}
	default:
		res.Decision = fail.Decide(r, q.UntilProbe())
	}
	res.Fail = fail
}

// unavailable returns the error of a request that the node could not answer.
func (q *queue) unavailable(why string, maybeApplied bool) *engine.Unavailable {
	return &engine.Unavailable{Node: q.Name(), Why: why, MaybeApplied: maybeApplied}
}

// failFor returns the FAIL policy of a decision. A single process does not know which leases of RL.ACQUIRE are held,
// so LOCAL denies them.
func (p *parts) failFor(r *engine.Request) engine.FailPolicy {
	live := p.live.Load()
	fail := r.FailPolicyFor(live.FailRules, live.Fail)
	if fail == engine.FailLocal && r.Kind == limit.Concurrency {
		return engine.FailClosed
	}
	return fail
}

// recovered is called by the fleet when a node answers again.
func (p *parts) recovered(n *backend.Node, was backend.Health) {
	if q, ok := p.queues.Find(n); ok && was == backend.Suspect && len(q.log.Counts()) > 0 {
		q.log.Note("", 0, func() []any { return []any{"why", n.Reason()} })
	}
	p.local.Wake()
}

// report returns, for the log, how often FAIL policies answered in place of a node that is down or has just recovered.
func (p *parts) report(n *backend.Node) []any {
	switch q, ok := p.queues.Find(n); {
	case !ok:
		return nil
	case n.Down():
		return q.log.Counts()
	default:
		return q.log.Take()
	}
}

// writeBack writes back to the nodes what FAIL LOCAL counted, when they take it. While a node refuses calls, it is only
// asked about the key of the last one, also if there is nothing to write, because clients may send nothing to a proxy
// that is not ready. Contested keys wait until the proxies agree on their nodes. writeBack reports whether another
// round is due soon.
func (e *Engine) writeBack(ctx context.Context) (again bool) {
	conflict := e.layout.Conflict.Load()
	again = conflict != nil
	top := e.queues.OpenAll()
	takes := make([]bool, len(top.Queues))
	for i, q := range top.Queues {
		switch refused := q.Refused.Load(); {
		case q.Health() != backend.Up:
		case refused == nil:
			takes[i] = true
		case top.Locate([]byte(refused.Key), 0) != i: // a shard of the key was refused: ask would reach another node
			again, takes[i] = true, true
		default:
			again = true
			e.ask(refused.Key)
			takes[i] = q.TakesWrites()
		}
	}
	pass := func(key string) bool {
		name := []byte(key)
		return takes[top.Locate(name, 0)] && (conflict == nil || !conflict.Contested(name, e.splits.Shards(name)))
	}
	return e.local.WriteBack(ctx, pass, e.Do) || again
}

// ask asks the home of a key about it, which charges nothing, so that the node's queue learns whether the node still
// refuses calls. It is no request of a client, so no FAIL policy answers it.
func (e *Engine) ask(key string) {
	r := engine.Request{Key: []byte(key), Spec: limit.Spec{Kind: limit.Fixed, N: 1, Param: 1}}
	r.Windows[0] = limit.Window{Limit: limit.MaxLimit, Length: 1000}
	args := append([][]byte{nil}, wire.AllArgs([]engine.Request{r})...)
	e.Call(r.Key, []*split.Call{{Function: lua.Decide, Args: args}})
}
