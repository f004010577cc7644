package wire

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
)

// A request's cost is how long a node works for it at most, whatever is stored, as far as a proxy can know that before
// it asks. Runs of pipelines, and batches, are closed by cost, so that requests that take a node long leave time for
// others. The figures are the node's CPU time, by INFO cpu, for the dearest requests of each kind: in pipelines of 50,
// of Redis 7.0 on a core of 3 GHz.
const (
	// EntryCost is that of a decision about one window, or of ending a hold. Most take a tenth of it: the rest is for
	// what may be stored, such as ids, holds and many sub-windows.
	EntryCost = 60 * time.Microsecond

	WindowCost  = 10 * time.Microsecond  // of each further window
	ShardCost   = 5 * time.Microsecond   // of each further shard of a key, of which the home reads what was lent
	RepeatCost  = time.Microsecond       // of a request that is equal to the one before it, and shares its entry
	ResetCost   = 10 * time.Microsecond  // of RL.RESET of one key
	InspectCost = 600 * time.Microsecond // of RL.INSPECT of a key with engine.MaxStates states
	CallCost    = 60 * time.Microsecond  // of a call of package split

	// LeastAllowance and MostAllowance bound the cost of a run.
	LeastAllowance = 2 * EntryCost
	MostAllowance  = 256 * EntryCost
)

// DecisionCost returns the cost of a decision, or of ending a hold.
func DecisionCost(r *engine.Request) time.Duration {
	return EntryCost + time.Duration(max(r.N, 1)-1)*WindowCost + time.Duration(max(r.Shards, 1)-1)*ShardCost
}
