// Package traffic counts what is sent to a node and what comes back, for metrics.
package traffic

import (
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Counters count what is sent to a node and what comes back. Their zero value is ready.
type Counters struct {
	Waits      histogram.H // from when a request was submitted until it was sent
	RoundTrips histogram.H
	Sizes      [len(engine.Sizes{}.AtMost)]atomic.Int64 // batches, by the bits of their size - 1
	Requests   atomic.Int64                             // in all batches
	Combined   atomic.Int64                             // requests that joined the entry of an equal one
	Overflows  atomic.Int64                             // requests not sent: the queue was full or they were late
	failures   [backend.Kinds]atomic.Int64              // calls that failed
	// FailAnswers are answers by FAIL policy in place of the node.
	FailAnswers [engine.FailPolicies]atomic.Int64
	// when a call last succeeded, in ns of the user's clock; 0: never
	LastReply atomic.Int64
}

// Failure counts a call that failed.
func (t *Counters) Failure(err error) {
	kind := backend.KindOf(err)
	if wire.KeyError(err.Error()) != nil {
		kind = backend.KindKey
	}
	t.failures[kind].Add(1)
}

// FailedEntry counts an entry or request that failed in a call that did not. maybeApplied reports whether its
// answer contradicts itself; otherwise the error is about its key.
func (t *Counters) FailedEntry(maybeApplied bool) {
	kind := backend.KindKey
	if maybeApplied {
		kind = backend.KindMalformed
	}
	t.failures[kind].Add(1)
}

// Snapshot returns what was counted so far. now is the time of the engine's own clock.
func (t *Counters) Snapshot(now time.Duration) *engine.Traffic {
	s := &engine.Traffic{
		Waits: t.Waits.Snapshot(), RoundTrips: t.RoundTrips.Snapshot(),
		Combined: t.Combined.Load(), Overflows: t.Overflows.Load(),
	}
	n := int64(0)
	for i := range t.Sizes {
		n += t.Sizes[i].Load()
		s.Batches.AtMost[i] = n
	}
	s.Batches.Sum = t.Requests.Load()
	if at := t.LastReply.Load(); at > 0 {
		s.Answered = time.Now().Add(time.Duration(at) - now)
	}
	for p := range t.FailAnswers {
		s.FailAnswers[p] = t.FailAnswers[p].Load()
	}
	for k := range backend.Kinds {
		kind := backend.ErrorKind(k).String()
		s.Failures = append(s.Failures, engine.Failures{Kind: kind, Count: t.failures[k].Load()})
	}
	return s
}
