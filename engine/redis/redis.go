// Package redis is the engine that keeps state on Redis nodes. A key is stored on one node; a decision is a function of
// the library in package lua, run there. Requests of all connections that are waiting for the same node go to it
// together.
//
// The path of a pipeline: Do routes its requests, some of which are answered from memory, to the queues of their nodes
// (route.go, send.go), in runs that take a node a few ms at most (item.go, which says what can wait for a node). The
// items of a queue become a batch (queue.go, batch.go) of commands (command.go), encoded by package wire and sent by
// the caller itself if the node is idle. The replies, decoded by package wire, are applied in one place (apply.go):
// results are set, denials remembered, and what a shard of a split key refused is left to package split, once all
// answers have arrived. Requests with ids and RL.INSPECT have calls without other requests (alone.go). A multi-key
// request whose keys are all on one node has a call of its own; package multikey composes the others of holds
// (multikey.go). Requests that no node could answer are answered by a FAIL policy, and what FAIL LOCAL counted is
// written back later (fail.go, and package local).
//
// Package backend finds the nodes and watches their health, package backlog queues what waits for them, and package
// library loads the library there. An Engine shares its parts with the queues and their batches, which do not know it.
//
// Reading order: redis.go (this file), item.go, route.go, send.go, start.go, queue.go, batch.go, command.go, apply.go,
// alone.go, multikey.go, redirect.go, fail.go, stats.go.
package redis

import (
	"cmp"
	"log/slog"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/advance/purse"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/local"
	"github.com/rlproxy/rlproxy/engine/replicas"
	"github.com/rlproxy/rlproxy/engine/split"
)

// Config configures an Engine.
type Config struct {
	// Settings are the initial settings.
	Settings

	// LocalMemory bounds the state that FAIL LOCAL keeps here, in bytes; 0: no bound.
	LocalMemory int64

	// MaxQueue is the most requests that may wait for one node. FAIL policies answer others. Default 100,000.
	MaxQueue int

	// AskAlways sends every request to its node. Otherwise a denial is remembered until its retry-after has passed, at
	// most 1 s, and the same request answered here.
	AskAlways bool

	// Layout guards the list of nodes; nil: nothing does. It must be closed after the engine.
	Layout *layout.Guard

	Logger *slog.Logger // default slog.Default()
}

// Settings say what to do when nodes do not answer, and which keys to split. Configure changes them.
type Settings struct {
	// Fail answers in place of a node that does not. Default engine.FailClosed.
	Fail engine.FailPolicy

	// FailRules take precedence over Fail, and a request's own FAIL over both. The first that matches a key applies.
	FailRules []engine.FailRule

	// HotKeys splits keys over several nodes. The first rule that matches applies; a request's SHARDS goes first.
	HotKeys []split.Rule

	// HotThreshold splits keys that have more charging calls per second on one node, see split.Settings; 0: none.
	HotThreshold int64

	// Advance is for how long homes advance units of hot keys, see engine/advance; 0: never.
	Advance time.Duration

	// Replicas says which replicas must have what a node has written.
	Replicas replicas.Need
}

// Engine keeps state on the nodes of a fleet. It implements engine.Engine.
type Engine struct {
	sender
	layout *layout.Guard
	held   backlog.Held[item] // until Flush
}

// Open returns an engine on the nodes of a fleet, which must be closed after it. It does not wait for the nodes. A
// request waits for its node for at most the fleet's Timeout before its FAIL policy answers.
func Open(fleet *backend.Fleet, config Config) *Engine {
	if config.MaxQueue <= 0 {
		config.MaxQueue = 100_000
	}
	config.Logger = cmp.Or(config.Logger, slog.Default())
	config.Layout = cmp.Or(config.Layout, new(layout.Guard))
	p := &parts{
		fleet: fleet, maxQueue: config.MaxQueue, logger: config.Logger, remember: !config.AskAlways,
		local: local.Open(config.LocalMemory, config.Logger), now: time.Now, began: time.Now(),
	}
	e := &Engine{sender: sender{parts: p}, layout: config.Layout}
	e.plans.New = newPlan
	p.queues.Fleet, p.queues.OpenQueue = fleet, func(n *backend.Node) *queue { return openQueue(p, n) }
	splits := split.Config{
		Logger:   config.Logger,
		Patience: func() int64 { return backlog.Patience(fleet.Timeout()).Milliseconds() },
		Now:      func() int64 { return p.elapsed().Milliseconds() },
	}
	if p.remember {
		splits.Denials = &p.denials
	}
	p.splits = split.New(splits, &e.sender)
	p.advances = purse.Open(&e.sender, func() time.Time { return p.now() })
	p.ForgetAll, p.Recall, p.Forget = p.denials.ForgetAll, p.advances.Recall, func(key []byte) {
		p.denials.Forget(key)
		p.local.Forget(key)
		p.advances.Recall(key)
	}
	e.Configure(config.Settings)
	// All parts are there: queues may be opened, and others may call the engine.
	fleet.OnRecovered(p.recovered)
	fleet.AddAttrs(p.report)
	p.queues.OpenAll() // they begin to listen for resets
	p.local.Start(e.writeBack)
	return e
}

// Configure applies settings to the requests to come.
func (e *Engine) Configure(s Settings) {
	if s.Fail == engine.FailDefault {
		s.Fail = engine.FailClosed
	}
	e.live.Store(&s)
	e.advances.Configure(s.Advance)
	e.splits.Configure(split.Settings{Rules: s.HotKeys, Threshold: s.HotThreshold})
}

// Close implements engine.Engine.
func (e *Engine) Close() error {
	e.advances.Close(2 * e.fleet.Timeout())
	e.splits.Close()
	e.local.Stop()
	_ = e.queues.Close() // it never fails
	return e.local.Close()
}

// Where implements engine.Engine.
func (e *Engine) Where(key []byte) (node string, shards int) {
	t := e.queues.OpenAll()
	return t.Queues[t.Locate(key, 0)].Name(), e.splits.Shards(key)
}
