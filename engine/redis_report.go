package engine

import (
	"sync/atomic"
	"time"
)

// policyNames are the policies as INFO and the log call them.
var policyNames = [...]string{PolicyClosed: "closed", PolicyOpen: "open", PolicyLocal: "local", PolicyError: "error"}

// report says in the log how often policies answered for a node: when it is back,
// and now and then when it is not down but refuses, or is slow.
type report struct {
	unsaid [PolicyError + 1]atomic.Int64 // answers since the last line
	next   atomic.Int64                  // when there may be another, by the engine's own clock
}

// reportEvery is the least time between two lines about a node that is not down.
const reportEvery = 10 * time.Second

// answered counts an answer by policy.
func (r *report) answered(n *node, policy Policy, why string) {
	r.unsaid[policy].Add(1)
	if n.health.down() {
		return // said already
	}
	now, next := int64(n.engine.elapsed()), r.next.Load()
	if now < next || !r.next.CompareAndSwap(next, now+int64(reportEvery)) {
		return
	}
	n.engine.config.Logger.Warn("policy answers for node", append([]any{"node", n.name, "why", why}, r.take()...)...)
}

// take returns the answers since the last line, by policy, for the log.
func (r *report) take() []any {
	var out []any
	for policy := range r.unsaid {
		if n := r.unsaid[policy].Swap(0); n > 0 {
			out = append(out, policyNames[policy], n)
		}
	}
	return out
}
