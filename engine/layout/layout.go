// Package layout checks that all proxies have the same list of nodes. A layout is the list of the names by which a
// proxy places keys. Proxies with different layouts place some keys on different nodes, where each of them admits up to
// the limit.
//
// Once a second, each proxy reads a record on each of its nodes with the layouts of all proxies (record.go, package
// registry), and sees to it that its own is there. A layout expires some seconds after its proxy has stopped. If
// layouts differ, compare.go determines which keys they place on different servers. Because one server may have several
// names, it identifies a server not only by its name but also by the record in which a layout was found. A Guard (this
// file) logs the differences (report.go), and in mode Strict publishes which keys are contested.
//
// Proxies whose layouts have no node in common cannot find each other. In a Redis Cluster the nodes themselves place
// the keys, and there is nothing to guard.
//
// Reading order: layout.go (this file), record.go, compare.go, report.go.
package layout

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
)

// Mode says what a Guard does.
type Mode int32

// The modes.
const (
	Off    Mode = iota // stores and reads nothing
	Warn               // logs that layouts differ
	Strict             // also has contested keys answered by their FAIL policy
)

// String returns the mode as the configuration has it.
func (m Mode) String() string { return [...]string{"off", "warn", "strict"}[m] }

const (
	// usualPause is the time between two rounds of reading the records.
	usualPause = time.Second
	// longPause is the time between two rounds if so many proxies have the same nodes that a record cannot list them
	// all. More frequent rounds would take a noticeable part of a node's time.
	longPause = 3 * time.Second
	// maxRound bounds a round, as the fleet's timeout does. A proxy serves only after its first round.
	maxRound = 2 * time.Second
	// listingTTL is the time to live of a listing in a record. It is renewed when half of that has passed, so that most
	// rounds write nothing.
	listingTTL = 10 * time.Second
)

// Why is the reason for an answer by the FAIL policy about a contested key.
const Why = "another proxy's list of backends places the key elsewhere"

// Guard compares the layout of this proxy with those of others. The zero Guard finds nothing.
type Guard struct {
	// Conflict says which keys are contested. It is nil if none is, or the mode is not Strict.
	Conflict atomic.Pointer[Conflict]

	// Answers counts the answers by FAIL policies about contested keys. The engine increments it.
	Answers atomic.Int64

	fleet  *backend.Fleet
	log    *slog.Logger
	self   string                 // this proxy's name in records
	mode   atomic.Int32           // the Mode
	latest atomic.Pointer[survey] // the result of the latest round; nil before the first
	report *journal               // used only by the Guard's goroutine

	mu   sync.Mutex
	seen map[*backend.Node]seen // what is known of each node's record; guarded by mu

	loop *registry.Loop
}

// Open returns a guard of the fleet's layout, which must be closed before the fleet. Open has read the records of all
// nodes that answer in time, so that a proxy knows other layouts before it decides anything.
func Open(fleet *backend.Fleet, mode Mode, log *slog.Logger) *Guard {
	loop, ctx := registry.NewLoop()
	g := &Guard{fleet: fleet, log: log, self: registry.Name(), report: newReport(log),
		seen: make(map[*backend.Node]seen), loop: loop}
	g.mode.Store(int32(mode))
	fleet.OnRecovered(func(*backend.Node, backend.Health) { loop.Soon() })
	g.round(ctx)
	loop.Go(ctx, g.pause, g.round)
	return g
}

// SetMode changes the mode.
func (g *Guard) SetMode(mode Mode) {
	g.mode.Store(int32(mode))
	g.loop.Soon()
}

// Close removes this proxy from the records of nodes that answer, if it may be in them.
func (g *Guard) Close() {
	g.loop.Close()
	g.mu.Lock()
	stored := len(g.seen) > 0
	g.mu.Unlock()
	if !stored {
		return
	}
	g.readAll(context.Background(), g.fleet.Topology(), 0)
}

func (g *Guard) pause() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.seen {
		if s.contents != nil && s.contents.crowded {
			return longPause
		}
	}
	return usualPause
}

// round reads all records, compares them and reports the result.
func (g *Guard) round(ctx context.Context) {
	backend.Guard(g.log, "comparing the lists of backends", func() {
		top, mode := g.fleet.Topology(), Mode(g.mode.Load())
		v := &survey{mode: mode, clustered: top.Clustered(), at: time.Now()}
		if mode != Off && !v.clustered {
			g.readAll(ctx, top, listingTTL)
			g.judge(top, v)
		}
		if ctx.Err() != nil {
			return
		}
		g.publish(v)
	})
}

// publish makes the result of a round available and logs it.
func (g *Guard) publish(v *survey) {
	conflict := v.conflict
	if v.mode != Strict {
		conflict = nil
	}
	g.Conflict.Store(conflict)
	g.report.log(v)
	g.latest.Store(v)
}

// readAll reads the records of all nodes in parallel, and stores this proxy's layout in them for ttl, or removes it if
// ttl is 0. What is known of a node that does not answer is kept.
func (g *Guard) readAll(ctx context.Context, top *backend.Topology, ttl time.Duration) {
	if top.Clustered() {
		return
	}
	own, index := newList(top.Names())
	ctx, cancel := context.WithTimeout(ctx, min(g.fleet.Timeout(), maxRound))
	defer cancel()
	registry.Each(g.log, "reading the record of", top.Nodes, func(i int, n *backend.Node) {
		g.mu.Lock()
		was := g.seen[n].contents
		g.mu.Unlock()
		r, err := ask(ctx, n, own, index[i], g.self, ttl, was)
		switch {
		case errors.As(err, new(registry.Unreachable)):
			return
		case err != nil:
			r = was
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.seen[n] = seen{r, err}
	})
}

// judge compares the records, and stores the result in v.
func (g *Guard) judge(top *backend.Topology, v *survey) {
	own, index := newList(top.Names())
	records := make([]*contents, len(own))
	g.mu.Lock()
	maps.DeleteFunc(g.seen, func(n *backend.Node, _ seen) bool { return !slices.Contains(top.Nodes, n) })
	v.nodes = maps.Clone(g.seen)
	g.mu.Unlock()
	for i, n := range top.Nodes {
		records[index[i]] = v.nodes[n].contents
	}
	v.own, v.at = own, time.Now()
	v.finding = compare(own, g.self, records, v.at)
}
