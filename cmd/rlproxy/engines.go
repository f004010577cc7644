package main

import (
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/commands/waiting"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/calendar"
	"github.com/rlproxy/rlproxy/engine/decisionlog"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/engine/hotkeys"
	"github.com/rlproxy/rlproxy/engine/layout"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/engine/redis"
	"github.com/rlproxy/rlproxy/engine/scan"
	"github.com/rlproxy/rlproxy/policy"
	"github.com/rlproxy/rlproxy/policy/store"
	"github.com/rlproxy/rlproxy/resp"
)

// engines holds the decision engine and, with backends, the fleet of nodes under it
// and the forwarder of other commands, which share the clients' memory with the server.
type engines struct {
	decide  engine.Engine
	keys    engine.KeyLister   // lists the keys of decide
	fleet   *backend.Fleet     // nil with the embedded engine
	layout  *layout.Guard      // nil with the embedded engine
	forward *forward.Forwarder // nil with the embedded engine
	memory  *resp.Budget       // counts the bytes that clients make the process hold
	waiting *waiting.Room      // lets requests wait
	slots   *slots.Keeper      // keeps the leases that are tied to clients' connections

	policies *policy.Catalog // the named policies in effect
	store    *store.Store    // keeps the policies that are set by command; nil before keepPolicies

	// configure applies the live directives of the engines to later requests.
	configure func(c *config.Config)

	observer  *observe.Observer     // sees the decisions
	hotkeys   *hotkeys.Exchange     // adds up the busiest keys of all proxies
	decisions *decisionlog.Recorder // logs them
}

// openEngines opens the engines that the configuration asks for.
func openEngines(c *config.Config, log *slog.Logger) (*engines, error) {
	clients := resp.NewBudget(c.ClientMemory)
	if len(c.Backends) == 0 {
		own := memory.Open(memory.Config{MaxMemory: c.MaxMemory, Logger: log})
		e := &engines{memory: clients, policies: new(policy.Catalog), decide: own, keys: own,
			configure: func(c *config.Config) {
				own.Configure(memory.Settings{Fail: c.FailPolicy, FailRules: c.FailRules})
			}}
		e.observe(log)
		return e, nil
	}
	fleet, err := backend.Open(backend.Config{
		Backends: c.Backends,
		TLS:      c.BackendTLS,
		Logins:   c.Logins,
		Timeout:  c.BackendTimeout,
		Logger:   log,
	})
	if err != nil {
		return nil, err
	}
	guard := layout.Open(fleet, c.LayoutGuard, log)
	nodes := redis.Open(fleet, redis.Config{LocalMemory: c.MaxMemory, Layout: guard, Logger: log})
	forwarder := forward.Open(fleet, forward.Config{ReplyLimit: c.OutputBuffer, Reserve: clients.Reserve, Logger: log})
	e := &engines{memory: clients, policies: new(policy.Catalog), fleet: fleet, layout: guard,
		decide:  &calendar.Engine{Starter: nodes, Now: time.Now, Logger: log},
		keys:    scan.NodeKeys{Fleet: fleet},
		forward: forwarder, configure: func(c *config.Config) {
			fleet.SetTimeout(c.BackendTimeout)
			guard.SetMode(c.LayoutGuard)
			nodes.Configure(redis.Settings{
				Fail: c.FailPolicy, FailRules: c.FailRules,
				HotKeys: c.HotKeys, HotThreshold: int64(c.HotThreshold),
				Advance: advanceTime(c), Replicas: c.Replicas,
			})
			forwarder.Configure(forward.Settings{Off: !c.Passthrough, Admin: c.PassthroughAdmin,
				Timeout: c.PassthroughTimeout})
		}}
	e.observe(log)
	return e, nil
}

// advanceTime returns for how long units are advanced, 0 for never.
func advanceTime(c *config.Config) time.Duration {
	if !c.Advances {
		return 0
	}
	return c.AdvanceTime
}

// observe opens what sees the decisions, and what keeps leases.
func (e *engines) observe(log *slog.Logger) {
	e.decisions = decisionlog.New(decisionlog.Config{Where: e.decide.Where, Why: e.why, Logger: log})
	e.observer = observe.New(observe.Config{Engine: e.decide, Recorder: e.decisions})
	if e.fleet != nil {
		e.fleet.SetWindows(e.observer.ShortestWindow)
	}
	e.waiting = waiting.Open(e.decide)
	e.slots = slots.Open(slots.Config{Engine: e.decide, Reserve: e.memory.Reserve, Lapsed: e.observer.CountLapsedLeases,
		Logger: log})
	e.hotkeys = hotkeys.Open(e.fleet, e.observer, log)
}

// why returns what is wrong with a node now, or "".
func (e *engines) why(node string) string {
	for _, n := range e.decide.Nodes() {
		if n.Name == node {
			return n.Why
		}
	}
	return ""
}

// keepPolicies puts the policies of the configuration into effect, and opens the store of those
// that are set by command.
func (e *engines) keepPolicies(c *config.Config, log *slog.Logger) (err error) {
	e.policies.Configure(c.Policies.Set())
	e.store, err = store.Open(e.fleet, c.PolicyFile, e.policies, log)
	return err
}

// stats returns the statistics of the engine and of its observers, for INFO and metrics.
func (e *engines) stats() []engine.Stat {
	return slices.Concat(e.decide.Stats(), e.observer.Stats(), e.slots.Stats(), e.waiting.Stats(), e.hotkeys.Stats(),
		e.decisions.Stats())
}

// close closes the engines, then the fleet, and the decision log last. The caller makes no further
// requests.
func (e *engines) close() error {
	e.waiting.Close()
	e.slots.Close()
	e.hotkeys.Close()
	if e.store != nil {
		e.store.Close()
	}
	err := e.decide.Close()
	if e.forward != nil {
		err = errors.Join(err, e.forward.Close())
	}
	if e.fleet != nil {
		e.layout.Close()
		err = errors.Join(err, e.fleet.Close())
	}
	e.decisions.Close()
	return err
}
