// Package observe gets every decision after it is made, and keeps statistics: how many had
// which outcome by which policy, how long they took, and which keys are the busiest. All
// counting, logging and display of decisions starts here.
//
// Reading order: observe.go (this file), policies.go (counts by policy), holds.go (outcomes of holds), busiest.go (the
// busiest keys), windows.go (the shortest window).
package observe

import (
	"net"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/histogram"
	"github.com/rlproxy/rlproxy/shard"
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
	FailLocal                 // allowed by FAIL LOCAL
	FailError                 // an error by FAIL ERROR
	Error                     // another error: the key's state could not be used

	ShadowAllowed // what SHADOW would have admitted
	ShadowDenied  // what SHADOW would have denied, by the state or from memory; nobody was denied
	ShadowFail    // any FAIL policy answered a request with SHADOW

	// the request's id was known: it got the answer of then, or renewed a lease of RL.ACQUIRE, and charged nothing
	Repeated
	DeniedOther // the key had room, but another key of the same request denied
	Drawn       // allowed from an advance, without asking the node
	// denied by FAIL LOCAL, because the limit is reached by what this proxy has counted in place of the node
	DeniedLocally
)

// Outcomes is the number of outcomes.
const Outcomes = int(DeniedLocally) + 1

// String returns the outcome's name in metrics.
func (o Outcome) String() string {
	return [Outcomes]string{
		"allowed", "denied", "denied_from_memory", "fail_open", "fail_closed", "fail_local", "fail_error", "error",
		"shadow_allowed", "shadow_denied", "shadow_fail", "repeated", "denied_by_other_key",
		"allowed_from_advance", "denied_by_fail_local",
	}[o]
}

// TurnsAway reports whether the client was not let in.
func (o Outcome) TurnsAway() bool {
	switch o {
	case Denied, Remembered, DeniedOther, DeniedLocally, FailClosed, FailError:
		return true
	}
	return false
}

// OutcomeOf returns what became of a request for a decision.
func OutcomeOf(r *engine.Request, res *engine.Result) Outcome {
	local := res.Fail == engine.FailLocal
	switch {
	case r.Shadow && (res.Fail != engine.FailDefault || res.Err == nil):
		return shadowOutcome(res)
	case res.Fail != engine.FailDefault && !local:
		return [engine.FailPolicies]Outcome{
			engine.FailOpen: FailOpen, engine.FailClosed: FailClosed, engine.FailError: FailError,
		}[res.Fail]
	case res.Err != nil:
		return Error
	case res.Remembered:
		return Remembered
	case res.Allowed:
		switch {
		case local:
			return FailLocal
		case res.Again:
			return Repeated
		case res.Drawn:
			return Drawn
		}
		return Allowed
	case r.KeyNumber > 0 && res.RetryAfter == 0:
		return DeniedOther
	case local:
		return DeniedLocally
	default:
		return Denied
	}
}

// shadowOutcome returns what became of a request with SHADOW that no error answered.
func shadowOutcome(res *engine.Result) Outcome {
	switch {
	case res.Fail != engine.FailDefault:
		return ShadowFail
	case res.Allowed:
		return ShadowAllowed
	default:
		return ShadowDenied
	}
}

// Command is the command of a decision. For RL.CHECK it is that of its policy's algorithm.
type Command uint8

// Reserve is RL.RESERVE and RL.HOLD. Each other command has the number of its kind of limit.
const Reserve = Command(5) // no kind has this number

// Commands has all commands.
var Commands []Command

func init() {
	for c := range Command(limit.Kinds) {
		if c == Reserve || limit.Kind(c).Known() {
			Commands = append(Commands, c)
		}
	}
}

// String returns the command's name as INFO commandstats shows it.
func (c Command) String() string {
	if c == Reserve {
		return "rl.reserve"
	}
	return strings.ToLower(limit.Kind(c).String())
}

// CommandOf returns the command of a decision.
func CommandOf(r *engine.Request) Command {
	if r.Hold != nil && !r.Hold.Once && r.Kind != limit.Concurrency {
		return Reserve
	}
	return Command(r.Kind)
}

// Sender is the client that sent the requests.
type Sender struct {
	Addr net.Addr
	Name string // as set by CLIENT SETNAME; empty if it was not
}

// Recorder gets every pipeline of decisions once it is answered. It is called by many
// goroutines, does not block, and keeps nothing of the pipeline.
type Recorder interface {
	Record(p *engine.Pipeline, from Sender)
}

// Observer keeps statistics of all decisions. It is safe for concurrent use.
type Observer struct {
	engine    engine.Engine
	recorder  Recorder
	busiest   *busiest
	counts    Counts // of limits that commands brought
	policies  policies
	holds     holds
	durations [limit.Kinds]histogram.H // by Command
	windows   windows
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
	o := &Observer{engine: c.Engine, recorder: c.Recorder, busiest: newBusiest(c.Now)}
	o.windows.open(c.Now)
	return o
}

// Observe records a pipeline that was answered, the time at which it was sent to the engine, and
// how long the answer took, which is how long each of its requests has waited. It reads no clock.
func (o *Observer) Observe(p *engine.Pipeline, sent time.Time, took time.Duration, from Sender) {
	o.count(p, took)
	o.busiest.observe(p, sent.Sub(o.busiest.started)+took)
	if o.recorder != nil {
		o.recorder.Record(p, from)
	}
}

// count counts a pipeline's decisions, runs of equal ones together.
func (o *Observer) count(p *engine.Pipeline, took time.Duration) {
	requests, results := p.Requests, p.Results[:len(p.Requests)]
	if len(requests) == 0 {
		return
	}
	first, outcome, run := &requests[0], Allowed, int64(0) // the run's first request, the outcome of all, and how many
	shortest := int64(limit.MaxWindow)
	for i := range requests {
		r, res := &requests[i], &results[i]
		if r.Op != engine.OpDecide || res.Lapsed > 0 {
			if !soughtTwice(requests, results, i) {
				o.holds.observe(r, res)
			}
			if r.Op != engine.OpDecide {
				continue
			}
		}
		for j := range r.N {
			if length := r.Windows[j].Length; length > 0 { // else it has no window
				shortest = min(shortest, length)
			}
		}
		noPolicy := len(r.Policy)+len(first.Policy) == 0 // spares most requests a comparison of texts
		out := Allowed                                   // as nearly all are, without a call
		if !res.Allowed || res.Again || r.Shadow || res.Fail != engine.FailDefault || res.Err != nil {
			out = OutcomeOf(r, res)
		} else if res.Drawn {
			out = Drawn
		}
		if out != outcome || r.Kind != first.Kind || r.Hold != first.Hold || r.Override != first.Override ||
			!noPolicy && r.Policy != first.Policy {
			o.add(first, outcome, run, took)
			first, outcome, run = r, out, 0
		}
		run++
	}
	o.add(first, outcome, run, took)
	if shortest < o.windows.shortest.Load() {
		o.windows.shortest.Store(shortest) // two may come at once: the next one corrects it
	}
}

// add counts n equal decisions, of which r is one.
func (o *Observer) add(r *engine.Request, outcome Outcome, n int64, took time.Duration) {
	if n == 0 {
		return
	}
	counts := &o.counts
	if r.Policy != "" {
		counts = o.policies.of(r.Policy)
	}
	by := CommandOf(r)
	counts.n[by][outcome].Add(n)
	o.durations[by].Add(took, n)
	if r.Override != nil && !r.Shadow && outcome != Error {
		r.Override.Decisions.Add(n)
		if outcome.TurnsAway() {
			r.Override.TurnedAway.Add(n)
		}
	}
}

// Durations returns how long the decisions of a command took: the time until the pipeline
// that they were in was answered, without the time on the client's connection.
func (o *Observer) Durations(by Command) *histogram.H { return &o.durations[by] }

// HotKeys returns at most n of the keys most asked about, the busiest first.
func (o *Observer) HotKeys(n int) []HotKey {
	keys := o.busiest.top(n)
	var name []byte
	for i := range keys {
		for _, shadow := range [...]bool{false, true} {
			name = shard.AppendName(name[:0], keys[i].Key, shadow)
			_, shards := o.engine.Where(name)
			keys[i].Shards = max(keys[i].Shards, shards)
		}
	}
	return keys
}

// Stats returns what INFO shows of the decisions, and of what became of holds. Metrics have the
// decisions by command and policy.
func (o *Observer) Stats() []engine.Stat {
	denied, repeated := int64(0), int64(0)
	for _, counts := range o.Counts() {
		for _, by := range Commands {
			denied += counts.Of(by, ShadowDenied)
			repeated += counts.Of(by, Repeated)
		}
	}
	return append([]engine.Stat{{Name: "shadow_denied", Value: denied}, {Name: "repeated", Value: repeated}},
		o.holds.stats()...)
}
