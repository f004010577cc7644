package redis

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backlog"
)

// A request's cost is how long a node works for it at most, whatever is stored, as far as a proxy can know that before it asks. Runs of
// pipelines, and batches, are closed by cost, so that requests that take a node long leave time for others. The figures are
// the node's CPU time, by INFO cpu, for the dearest requests of each kind: in pipelines of 50, of Redis 7.0 on a core of 3 GHz.
const (
	// entryCost is that of a decision about one window, or of ending a hold. Most take a tenth of it: the rest is for what may be
	// stored, such as ids, holds and many sub-windows.
	entryCost = 60 * time.Microsecond

	// windowCost is that of each further window.
	windowCost = 10 * time.Microsecond

	// shardCost is that of each further shard of a key, of which the home reads what was lent.
	shardCost = 5 * time.Microsecond

	// repeatCost is that of a request that is equal to the one before it, and shares its entry.
	repeatCost = time.Microsecond

	// resetCost is that of RL.RESET of one key.
	resetCost = 10 * time.Microsecond

	// inspectCost is that of RL.INSPECT of a key with engine.MaxStates states.
	inspectCost = 600 * time.Microsecond

	// callCost is that of a call of package split.
	callCost = 60 * time.Microsecond

	// leastAllowance and mostAllowance bound the cost of a run.
	leastAllowance = 2 * entryCost
	mostAllowance  = backlog.MaxItems / 4 * entryCost
)

// cost returns the cost of an item that is not a plain decision about one window.
func (it *pending) cost() time.Duration {
	switch {
	case it.call != nil:
		return callCost
	case it.req.Op == engine.OpReset:
		return resetCost
	case it.req.Op == engine.OpInspect:
		return inspectCost
	case it.multi != nil:
		sum := time.Duration(0)
		for i := range it.multi.requests {
			sum += decisionCost(&it.multi.requests[i])
		}
		return sum
	}
	return decisionCost(it.req)
}

// decisionCost returns the cost of a decision, or of ending a hold.
func decisionCost(r *engine.Request) time.Duration {
	return entryCost + time.Duration(max(r.N, 1)-1)*windowCost + time.Duration(max(r.Shards, 1)-1)*shardCost
}

// runCost returns the cost of items that are sent again together.
func runCost(items []pending) (sum time.Duration) {
	for i := range items {
		sum += items[i].cost()
	}
	return sum
}
