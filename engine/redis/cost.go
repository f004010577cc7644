package redis

import (
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
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

const (
	leastAllowance = 2 * entryCost
	mostAllowance  = batchItems / 4 * entryCost

	// slowBatch is how long a node may work for a batch before its allowance falls.
	slowBatch = 2 * time.Millisecond

	// judgedCost is the cost from which on a batch changes the allowance. A batch of less may have waited for other batches of the
	// node, or for the machine, unless it costs half of the allowance.
	judgedCost = time.Millisecond
)

// allowance is the most cost of a run for a node. At first, and nearly always, that is mostAllowance, so that long pipelines take few
// round trips. Each slow batch lowers it, because what is stored makes requests dear, down to that of two requests. Each other batch
// raises it a little. Batches of few requests do neither.
type allowance struct {
	cost     atomic.Int64 // ns
	ended    atomic.Int64 // when the last batch ended, in ns of the engine's own clock
	distance atomic.Int64 // ns of the way to the node and back: the shortest round trip, of which older ones are forgotten slowly
}

func (a *allowance) open() {
	a.cost.Store(int64(mostAllowance))
	a.distance.Store(int64(time.Hour)) // until the first batch has ended
}

// load returns the most cost of a run.
func (a *allowance) load() time.Duration { return time.Duration(a.cost.Load()) }

// observe adjusts the allowance to a batch that has ended. Times are those of the engine's own clock. Batches may overlap: the node
// has worked for the last one until that was on its way back.
func (a *allowance) observe(cost, began, ended time.Duration) {
	before := time.Duration(a.ended.Swap(int64(ended)))
	was := time.Duration(a.distance.Load())
	distance := min(was+was/1024, ended-began)
	a.distance.Store(int64(distance))
	now, worked := a.load(), min(ended-began-distance, ended-before)
	switch {
	case cost < min(now/2, judgedCost):
		return
	case worked > slowBatch:
		now = max(now*slowBatch/worked, leastAllowance)
	default:
		now = min(now+now/16, mostAllowance)
	}
	a.cost.Store(int64(now))
}
