package engine

import (
	"time"

	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Traffic counts what this process has sent to a node, and the outcomes, since it first used
// the node.
type Traffic struct {
	Waiting    int                 // requests that are waiting to be sent now
	Waits      *histogram.Snapshot // how long requests waited until they were sent
	RoundTrips *histogram.Snapshot // of batches, including those that the node did not answer
	Batches    Sizes               // requests per batch
	Combined   int64               // requests that joined the entry of an equal one before them
	Overflows  int64               // requests not sent because the queue was full or they had waited too long
	Answered   time.Time           // when the node last replied to a call without an error; zero: never

	Failures    []Failures          // by kind; all kinds, always in the same order
	FailAnswers [FailPolicies]int64 // answers by FAIL policy in place of the node
}

// Sizes counts sizes by powers of two.
type Sizes struct {
	Sum    int64     // of all sizes
	AtMost [12]int64 // AtMost[i] are at most 1<<i; the last one is the number of all sizes
}

// Failures is the number of calls of a node that failed in one way.
type Failures struct {
	Kind  string
	Count int64
}
