// Package observe sees every decision once it is made, and keeps what is to be known of
// them all: how many had which outcome, how long they took, and which keys are the
// busiest. Nothing that counts, logs or shows decisions is anywhere else on their way.
//
// Reading order: observe.go (this file), busiest.go (the busiest keys).
package observe

import (
	"net"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// Outcome is what became of a request for a decision.
type Outcome uint8

// The outcomes.
const (
	Allowed    Outcome = iota // by the key's state
	Denied                    // by the key's state
	Remembered                // denied from memory: the node denied the same a moment ago
	FailOpen                  // allowed by FAIL OPEN
	FailClosed                // denied by FAIL CLOSED
	FailLocal                 // decided by FAIL LOCAL
	FailError                 // an error by FAIL ERROR
	Error                     // another error: the key's state could not be used
)

// Outcomes is the number of outcomes.
const Outcomes = int(Error) + 1

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [Outcomes]string{
		"allowed", "denied", "denied_from_memory", "fail_open", "fail_closed", "fail_local", "fail_error", "error",
	}[o]
}

// OutcomeOf returns what became of a request for a decision.
func OutcomeOf(res *engine.Result) Outcome {
	switch {
	case res.Fail != engine.FailDefault:
		return [engine.FailPolicies]Outcome{
			engine.FailOpen: FailOpen, engine.FailClosed: FailClosed, engine.FailLocal: FailLocal, engine.FailError: FailError,
		}[res.Fail]
	case res.Err != nil:
		return Error
	case res.Remembered:
		return Remembered
	case res.Allowed:
		return Allowed
	default:
		return Denied
	}
}

// Client is who asked.
type Client struct {
	Addr net.Addr
	Name string // as set by CLIENT SETNAME; empty if it was not
}

// Recorder gets every pipeline of decisions once it is answered. It is called by many
// goroutines, does not block, and keeps nothing of the pipeline.
type Recorder interface {
	Record(p *engine.Pipeline, from Client)
}

// kinds is the length of an array by limit.Kind.
const kinds = int(limit.GCRA) + 1

// Observer keeps what is to be known of all decisions. It is safe for concurrent use.
type Observer struct {
	engine    engine.Engine
	recorder  Recorder
	busiest   *busiest
	counts    [kinds][Outcomes]atomic.Int64
	durations [kinds]histogram.H
}

// Config configures an Observer. Only Engine is required.
type Config struct {
	Engine   engine.Engine    // decides what is observed
	Recorder Recorder         // gets every pipeline; nil: nothing does
	Now      func() time.Time // nil: time.Now
}

// New returns an Observer that has seen nothing.
func New(c Config) *Observer {
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Observer{engine: c.Engine, recorder: c.Recorder, busiest: newBusiest(c.Now)}
}

// Observe takes in a pipeline that was answered, when it was sent to the engine, and how long
// the answer took: each of its requests has waited for so long. It reads no clock.
func (o *Observer) Observe(p *engine.Pipeline, sent time.Time, took time.Duration, from Client) {
	o.count(p, took)
	o.busiest.observe(p, sent.Sub(o.busiest.started)+took)
	if o.recorder != nil {
		o.recorder.Record(p, from)
	}
}

// count counts a pipeline's decisions, runs of equal ones together.
func (o *Observer) count(p *engine.Pipeline, took time.Duration) {
	var kind limit.Kind
	var outcome Outcome
	run := int64(0)
	for i := range p.Requests {
		r := &p.Requests[i]
		if r.Op != engine.OpDecide {
			continue
		}
		if k, out := r.Kind, OutcomeOf(&p.Results[i]); k != kind || out != outcome {
			o.add(kind, outcome, run, took)
			kind, outcome, run = k, out, 0
		}
		run++
	}
	o.add(kind, outcome, run, took)
}

func (o *Observer) add(k limit.Kind, outcome Outcome, n int64, took time.Duration) {
	if n > 0 {
		o.counts[k][outcome].Add(n)
		o.durations[k].Add(took, n)
	}
}

// Count returns how many decisions of a kind had an outcome.
func (o *Observer) Count(k limit.Kind, outcome Outcome) int64 { return o.counts[k][outcome].Load() }

// Durations returns how long the decisions of a kind took: the time until the pipeline
// that they were in was answered, without the time on the client's connection.
func (o *Observer) Durations(k limit.Kind) *histogram.H { return &o.durations[k] }

// HotKeys returns at most n of the keys most asked about, the busiest first.
func (o *Observer) HotKeys(n int) []HotKey {
	keys := o.busiest.top(n)
	for i := range keys {
		_, keys[i].Shards = o.engine.Where(keys[i].Key)
	}
	return keys
}
