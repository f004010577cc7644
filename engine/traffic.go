package engine

import (
	"time"

	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Traffic is what this process has asked a node, and what came of it, since it knows the
// node.
type Traffic struct {
	Waiting    int                 // requests that wait to be sent now
	Waits      *histogram.Snapshot // how long requests waited until they were sent
	RoundTrips *histogram.Snapshot // how long the node took to reply to a batch, or not to
	Batches    Sizes               // of batches: their requests
	Combined   int64               // requests that were sent as one with an equal one before them
	Overflows  int64               // requests that were not sent because the queue was full or they had waited too long
	Answered   time.Time           // when the node last replied to a call without an error; zero: never

	Failures    []Failures          // by kind; all kinds, always in the same order
	FailAnswers [FailPolicies]int64 // answers by FAIL policy in place of the node
}

// Sizes counts sizes by powers of two.
type Sizes struct {
	Sum    int64     // of all sizes
	AtMost [12]int64 // AtMost[i] are at most 1<<i; the last one is the number of all sizes
}

// Failures is how many calls of a node have failed in one way.
type Failures struct {
	Kind  string
	Count int64
}
