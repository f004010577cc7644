package redis

import (
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// traffic counts what a queue sends to its node and what comes back, for metrics.
type traffic struct {
	waits      histogram.H // from when a request was submitted until it was sent
	roundTrips histogram.H
	sizes      [len(engine.Sizes{}.AtMost)]atomic.Int64 // batches, by the bits of their size - 1
	requests   atomic.Int64                             // in all batches
	combined   atomic.Int64                             // requests that joined the entry of an equal one
	overflows  atomic.Int64                             // requests not sent because the queue was full or they had waited too long
	failures   [backend.Kinds]atomic.Int64              // calls that failed
	lastReply  atomic.Int64                             // when a call last succeeded, in ns of the engine's own clock; 0: never
}

// countFailure counts a call that failed.
func (t *traffic) countFailure(err error) {
	kind := backend.KindOf(err)
	if wire.KeyError(err.Error()) != nil {
		kind = backend.KindKey
	}
	t.failures[kind].Add(1)
}

// countFailedEntry counts an entry or request that failed in a call that did not. maybeApplied reports whether its answer
// contradicts itself; otherwise the error is about its key.
func (t *traffic) countFailedEntry(maybeApplied bool) {
	kind := backend.KindKey
	if maybeApplied {
		kind = backend.KindMalformed
	}
	t.failures[kind].Add(1)
}

// snapshot returns what was counted so far. now is the time of the engine's own clock.
func (t *traffic) snapshot(now time.Duration) *engine.Traffic {
	s := &engine.Traffic{
		Waits: t.waits.Snapshot(), RoundTrips: t.roundTrips.Snapshot(),
		Combined: t.combined.Load(), Overflows: t.overflows.Load(),
	}
	n := int64(0)
	for i := range t.sizes {
		n += t.sizes[i].Load()
		s.Batches.AtMost[i] = n
	}
	s.Batches.Sum = t.requests.Load()
	if at := t.lastReply.Load(); at > 0 {
		s.Answered = time.Now().Add(time.Duration(at) - now)
	}
	for k := range backend.Kinds {
		s.Failures = append(s.Failures, engine.Failures{Kind: backend.ErrorKind(k).String(), Count: t.failures[k].Load()})
	}
	return s
}

// describe adds the queue's counters to d.
func (q *queue) describe(d *engine.NodeInfo) {
	if q.client == nil {
		return
	}
	d.Traffic = q.traffic.snapshot(q.engine.elapsed())
	d.Traffic.Waiting = q.waiting.Waiting()
	for p := range q.policies {
		d.Traffic.FailAnswers[p] = q.policies[p].Load()
	}
}
