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

// answered counts an answer by policy. While the node is in trouble nothing is said:
// that it is down, and when it is back how many there were, is enough.
func (r *report) answered(n *node, policy Policy, why string) {
	r.unsaid[policy].Add(1)
	if n.health.state.Load() == 0 {
		r.say(n, why)
	}
}

// say writes a line if there has been none for a while.
func (r *report) say(n *node, why string) {
	now, next := int64(n.engine.elapsed()), r.next.Load()
	if now < next || !r.next.CompareAndSwap(next, now+int64(reportEvery)) {
		return
	}
	if counts := r.take(); len(counts) > 0 {
		n.engine.config.Logger.Warn("policy answers for node", append([]any{"node", n.name, "why", why}, counts...)...)
	}
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
