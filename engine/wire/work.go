package wire

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
)

// A request's work is how long a node works for it at most, whatever is stored, as far as a proxy can know that before
// it asks. Runs of pipelines, and batches, are closed by work, so that requests that take a node long leave time for
// others. The figures are the node's CPU time, by INFO cpu, for the dearest requests of each kind: in pipelines of 50,
// of Redis 7.0 on a core of 3 GHz.
const (
	// EntryWork is that of a decision about one window, or of ending a hold. Most take a tenth of it: the rest is for
	// what may be stored, such as ids, holds and many sub-windows.
	EntryWork = 60 * time.Microsecond

	WindowWork  = 10 * time.Microsecond  // of each further window
	ShardWork   = 5 * time.Microsecond   // of each further shard of a key, of which the home reads what was lent
	RepeatWork  = time.Microsecond       // of a request that is equal to the one before it, and shares its entry
	ResetWork   = 10 * time.Microsecond  // of RL.RESET of one key
	InspectWork = 600 * time.Microsecond // of RL.INSPECT of a key with engine.MaxStates states
	CallWork    = 60 * time.Microsecond  // of a call of package split

	// LeastAllowance and MostAllowance bound the work of a run.
	LeastAllowance = 2 * EntryWork
	MostAllowance  = 256 * EntryWork
)

// DecisionWork returns the work of a decision, or of ending a hold.
func DecisionWork(r *engine.Request) time.Duration {
	return EntryWork + time.Duration(max(r.N, 1)-1)*WindowWork + time.Duration(max(r.Shards, 1)-1)*ShardWork
}
