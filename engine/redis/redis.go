// Package redis is the engine that keeps state on Redis nodes. A key is stored on one
// node; a decision is a function of the library in package lua, run there. Requests
// of all connections that are waiting for the same node go to it together.
//
// The path of a pipeline: Do routes its requests, some of which are answered from
// memory, to the queues of their nodes (route.go, queue.go), in runs that take a node a few
// ms at most (cost.go). A queue's requests become a batch of calls (batch.go), encoded by package wire and sent by the
// caller itself if the node is idle. The replies, decoded by package wire, are
// applied in one place (apply.go): results are set, denials remembered, and what a
// shard of a split key refused is left to package split (nodes.go), once all
// answers have arrived. Requests with ids have calls without other requests (single.go).
// A multi-key request whose keys are all on one node has a call of its own; package multikey
// composes the others of holds (multikey.go). Requests that no node could answer are
// answered by a FAIL policy (fail.go), and what FAIL LOCAL counted is written back later
// (reconcile.go).
//
// Package backend finds the nodes and watches their health, and package backlog queues what waits for them.
//
// Reading order: redis.go (this file), route.go, cost.go, start.go, queue.go, batch.go,
// library.go (how the library is loaded), apply.go, single.go, multikey.go, fail.go,
// redirect.go, nodes.go, reconcile.go, traffic.go (counters for metrics).
package redis

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/split"
)

// Config configures an Engine.
type Config struct {
	// Settings are the initial settings.
	Settings

	// LocalMemory bounds the state that FAIL LOCAL keeps here, in bytes; 0: no bound.
	LocalMemory int64

	// MaxQueue is the most requests that may wait for one node. Further ones get their
	// FAIL policy at once. Default 100,000.
	MaxQueue int

	// AskAlways sends every request to its node. Otherwise a denial is remembered until
	// its retry-after has passed, at most 1 s, and the same request answered here.
	AskAlways bool

	// Layout guards the list of nodes; nil: nothing does. It must be closed after the engine.
	Layout *layout.Guard

	Logger *slog.Logger // default slog.Default()
}

// Settings say what to do when nodes do not answer, and which keys to split. Configure changes
// them.
type Settings struct {
	// Fail answers in place of a node that does not. Default engine.FailClosed.
	Fail engine.FailPolicy

	// FailRules take precedence over Fail, and a request's own FAIL over both. The
	// first rule that matches a key applies.
	FailRules []engine.FailRule

	// HotKeys splits keys over several nodes. The first rule that matches a key
	// applies; a request's own SHARDS takes precedence.
	HotKeys []split.Rule

	// HotThreshold splits keys that have more charging calls per second on one node,
	// see split.Settings; 0: none.
	HotThreshold int64
}

// Engine keeps state on the nodes of a fleet. It implements engine.Engine.
type Engine struct {
	config Config
	live   atomic.Pointer[Settings] // in effect, never modified
	fleet  *backend.Fleet

	queues backend.Queues[*queue]

	layout     *layout.Guard
	denials    denials.Cache
	splits     *split.Splitter
	reconciler *reconciler // decides for FAIL LOCAL, and writes back what it counted
	plans      sync.Pool   // of *plan
	unflushed  unflushedQueues
	hotRate    atomic.Int64                      // charging calls per second from which on package split observes a key
	policies   [engine.FailPolicies]atomic.Int64 // answers by policy, for INFO

	now    func() time.Time
	opened time.Time
	clock  func() int64 // ms that functions take for the node's clock; nil outside of tests
	steady bool         // allowances stay as they are, for tests that count calls on a busy machine
}

// Open returns an engine on the nodes of a fleet, which must be closed after it. It
// does not wait for the nodes. A request waits for its node for at most the fleet's
// Timeout before its FAIL policy answers.
func Open(fleet *backend.Fleet, config Config) *Engine {
	if config.MaxQueue <= 0 {
		config.MaxQueue = 100_000
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	if config.Layout == nil {
		config.Layout = new(layout.Guard)
	}
	e := &Engine{
		layout: config.Layout,
		config: config, fleet: fleet,
		now: time.Now, opened: time.Now(),
	}
	e.plans.New = e.newPlan
	e.queues.Fleet, e.queues.OpenQueue = fleet, e.openQueue
	splits := split.Config{
		Logger:   config.Logger,
		Patience: func() int64 { return e.patience().Milliseconds() },
		Now:      func() int64 { return e.elapsed().Milliseconds() },
	}
	if !config.AskAlways {
		splits.Denials = &e.denials
	}
	e.splits = split.New(splits, e)
	e.Configure(config.Settings)
	e.reconciler = newReconciler(e)
	fleet.OnRecovered(e.recovered)
	fleet.AddAttrs(e.report)
	e.queues.OpenAll() // opens the queues, which begin to listen for resets
	e.reconciler.open()
	return e
}

// Configure applies settings to the requests to come.
func (e *Engine) Configure(s Settings) {
	if s.Fail == engine.FailDefault {
		s.Fail = engine.FailClosed
	}
	e.live.Store(&s)
	hot := s.HotThreshold
	if hot <= 0 {
		hot = math.MaxInt64
	}
	e.hotRate.Store(hot)
	e.splits.Configure(split.Settings{Rules: s.HotKeys, Threshold: s.HotThreshold})
}

// Do implements engine.Engine. A pipeline is one run of requests that are asked at
// the same time, unless it is long or dear, or requests about a split key have to wait for others.
func (e *Engine) Do(p *engine.Pipeline) {
	p.Grow()
	plan := e.plans.Get().(*plan)
	for from := 0; from < len(p.Requests); {
		to := e.route(plan, p, from)
		e.send(plan)
		if plan.opened.Load() || len(plan.multi) > 0 || to == from {
			to = e.complete(plan, p, from, to)
		}
		from = to
	}
	e.plans.Put(plan)
}

// complete answers the requests of a run that nodes have left open. It returns the index after
// the last answered request.
func (e *Engine) complete(plan *plan, p *engine.Pipeline, from, to int) int {
	if plan.opened.Load() {
		e.resolve(plan.takeOpen())
	}
	if len(plan.multi) > 0 || to == from {
		to = e.compose(plan, p, from, to)
	}
	return to
}

// elapsed returns the engine's own clock: the time since it was opened, which no
// change of the machine's clock moves.
func (e *Engine) elapsed() time.Duration { return e.now().Sub(e.opened) }

// patience returns how long a request may wait before it is no longer worth sending.
func (e *Engine) patience() time.Duration {
	return backlog.Patience(e.fleet.Timeout())
}

// Close implements engine.Engine.
func (e *Engine) Close() error {
	e.splits.Close()
	e.reconciler.stopWriting()
	_ = e.queues.Close() // it never fails
	return e.reconciler.close()
}

// Where implements engine.Engine.
func (e *Engine) Where(key []byte) (node string, shards int) {
	t := e.queues.OpenAll()
	return t.Queues[t.Locate(key, 0)].Name(), e.splits.Shards(key)
}

// Stats implements engine.Engine: one line per node comes last.
func (e *Engine) Stats() []engine.Stat {
	queues := e.queues.OpenAll().Queues
	stats := []engine.Stat{
		{Name: "engine", Text: "redis"},
		{Name: "nodes", Value: int64(len(queues)), Metric: "nodes", Help: "Nodes that keep state."},
		{Name: "denials_remembered", Value: e.denials.Kept(), Metric: "denials_remembered", Help: "Denials in memory. Those that have expired count until their key is asked about or another takes their place."},
		{
			Name: "denials_answered", Value: e.denials.Answers(), Metric: "denials_answered_total",
			Help: "Requests that were denied from memory, without asking a node.",
		},
	}
	for policy := engine.FailClosed; int(policy) < engine.FailPolicies; policy++ {
		stats = append(stats, engine.Stat{Name: "answered_" + policy.String(), Value: e.policies[policy].Load()})
	}
	stats = append(stats, e.reconciler.stats()...)
	stats = append(stats, e.splits.Stats()...)
	stats = append(stats, e.layout.Stats()...)
	for i, q := range queues {
		stats = append(stats, engine.Stat{Name: "node" + strconv.Itoa(i), Text: q.line()})
	}
	return stats
}

// Nodes implements engine.Engine.
func (e *Engine) Nodes() []engine.NodeInfo {
	t := e.queues.OpenAll()
	names, nodes := t.Names(), make([]engine.NodeInfo, len(t.Nodes))
	for i, n := range t.Nodes {
		d := &nodes[i]
		d.Name, d.State = n.Name(), t.Queues[i].condition()
		if r := t.Queues[i].refused.Load(); r != nil && d.State == refuses {
			d.Why = "it refused the last call: " + r.why
		} else if d.State != backend.Up.String() {
			d.Why = n.Reason()
		}
		if names != nil {
			d.Placement = names[i]
		}
		e.layout.Describe(n, d)
		t.Queues[i].describe(d)
	}
	return nodes
}

// refusal is a call that a node refused.
type refusal struct{ key, why string } // the name of a key of the call, and the node's error

// refuses is the condition of a node that is up but refused the last call.
const refuses = "refuses"

// condition returns the state of the node's health, or refuses.
func (q *queue) condition() string {
	if q.Health() == backend.Up && q.refused.Load() != nil {
		return refuses
	}
	return q.Health().String()
}

// line describes the node's health and how often policies answered in its place.
func (q *queue) line() string {
	return fmt.Sprintf("name=%s,state=%s,batches=%d,failures=%d,closed=%d,open=%d,local=%d,error=%d",
		q.Name(), q.condition(), q.Batches.Load(), q.Failures(), q.policies[engine.FailClosed].Load(),
		q.policies[engine.FailOpen].Load(), q.policies[engine.FailLocal].Load(), q.policies[engine.FailError].Load())
}
