// Package hotkeys adds up the busiest keys of all proxies of the same nodes, for RL.HOTKEYS FLEET.
//
// Every two seconds a proxy stores its busiest keys in a record of its own (record.go, package registry). It does so on
// two nodes, the first two that it can reach of a list of boards that all proxies have in the same order (boards.go). A
// proxy that needs the sum reads all these boards (read.go). So two proxies that disagree about whether a node is up
// still find each other. A record expires soon after its proxy has stopped.
//
// An Exchange (this file) does this for one proxy. It costs nodes nothing while there is nothing to store, and never
// delays a decision: records that cannot be stored or read are left out.
//
// Reading order: hotkeys.go (this file), record.go, boards.go, read.go.
package hotkeys

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/internal/episodes"
)

const (
	// publishEvery is the pause between two records that a proxy publishes.
	publishEvery = 2 * time.Second
	// publishFor is how long a record counts, so that one may get lost, and how long a proxy that was killed is still
	// seen.
	publishFor = 5 * time.Second
	// copies is the number of nodes on which a proxy publishes its keys.
	copies = 2
	// readAgain is how long records that were read are used again before the next read.
	readAgain = time.Second
	// within bounds a round trip, beside the fleet's timeout.
	within = time.Second
)

// Source has the busiest keys of this proxy.
type Source interface {
	// HotKeys returns at most n keys, the busiest first.
	HotKeys(n int) []observe.HotKey
}

// Exchange publishes the keys of this proxy for others, and adds up those of all. It is safe for concurrent use.
type Exchange struct {
	fleet *backend.Fleet
	own   Source
	log   *slog.Logger
	self  string // this proxy's name in indexes
	now   func() time.Time

	seq       int64   // number of records published; used only by the goroutine that publishes
	published []board // where the latest record is, or may be; used only by that goroutine, and then by Close

	others  atomic.Int64 // proxies found by the latest read, this one not counted
	ignored atomic.Int64 // invalid records

	reading sync.Mutex
	read    map[string]record // the newest record of each other proxy; guarded by reading
	readAt  time.Time         // guarded by reading

	trouble *episodes.Episodes
	loop    *registry.Loop
}

// Open returns an exchange of the keys of own, which must be closed before the fleet and before own. If fleet is nil,
// there are no nodes, and no other proxies.
func Open(fleet *backend.Fleet, own Source, log *slog.Logger) *Exchange {
	return open(fleet, own, log, publishEvery)
}

func open(fleet *backend.Fleet, own Source, log *slog.Logger, every time.Duration) *Exchange {
	var digits [8]byte
	_, _ = rand.Read(digits[:]) // it never fails
	x := &Exchange{
		fleet: fleet, own: own, log: log, self: hex.EncodeToString(digits[:]), now: time.Now,
	}
	x.trouble = episodes.NewEpisodes(log, func() time.Time { return x.now() })
	loop, ctx := registry.NewLoop()
	x.loop = loop
	if fleet != nil {
		loop.Go(ctx, func() time.Duration { return every }, func(ctx context.Context) {
			backend.Guard(log, "publishing the busiest keys", func() { x.round(ctx) })
		})
	}
	return x
}

// Close removes this proxy's record from the nodes that answer.
func (x *Exchange) Close() {
	x.loop.Close()
	for _, p := range x.published {
		_ = x.registry(p).Remove(context.Background(), x.self) // else it ends by itself
	}
}

// round publishes the busiest keys on the first boards that take them.
func (x *Exchange) round(ctx context.Context) {
	keys := x.own.HotKeys(math.MaxInt)
	if len(keys) == 0 {
		return
	}
	x.seq++
	text := encode(keys, x.seq)
	var published []board
	for _, p := range boards(x.fleet.Topology()) {
		if len(published) == copies || ctx.Err() != nil {
			break
		}
		if x.publish(ctx, p, text) == nil || ctx.Err() != nil {
			published = append(published, p)
		}
	}
	if ctx.Err() != nil { // Close came in between: it removes the records of this round and of the one before
		published = append(published, x.published...)
	}
	x.published = published
}

// publish stores this proxy's record on a board.
func (x *Exchange) publish(ctx context.Context, p board, text []byte) error {
	_, err := x.registry(p).Put(ctx, x.self, text, publishFor)
	if refused := registry.Refused(x.fleet, err); refused || err == nil {
		x.note(refused, noPublish, p.node, "why", err)
	}
	if full := errors.Is(err, registry.ErrFull); full || err == nil {
		x.note(full, noRoom, p.node)
	}
	return err
}

// registry returns where the records of a board are.
func (x *Exchange) registry(p board) registry.Registry {
	return registry.Registry{Node: p.node, Key: p.index, Bytes: maxRecord, Limit: min(x.fleet.Timeout(), within)}
}

// The kinds of trouble, by node. They end when the node does what it refused.
var (
	noPublish = &episodes.Trouble{
		Began: "cannot publish the busiest keys", Ended: "the busiest keys can be published again",
		Calm: episodes.Every,
	}
	noRoom = &episodes.Trouble{
		Began: "cannot publish the busiest keys: RL.HOTKEYS FLEET supports at most 64 proxies",
		Ended: "there is room for this proxy's busiest keys again", Calm: episodes.Every,
	}
	noRead = &episodes.Trouble{
		Began: "cannot read the busiest keys of other proxies",
		Ended: "the busiest keys of other proxies can be read again",
		Calm:  episodes.Every,
	}
	noSense = &episodes.Trouble{
		Began: "ignoring a record of another proxy's busiest keys",
		Ended: "all records of other proxies' busiest keys make sense again", Calm: episodes.Every,
	}
)

// note notes trouble with a node, or, if there is none, its end.
func (x *Exchange) note(trouble bool, kind *episodes.Trouble, n *backend.Node, detail ...any) {
	if trouble {
		x.trouble.Note(kind, []any{"node", n.Name()}, n.Name(), detail...)
	} else {
		x.trouble.End(kind, n.Name())
	}
}

// HotKeys returns the sums over the busiest keys of all proxies, the busiest first, and the number of proxies, this one
// included. It reads nodes at most once a second, so it may be called often; a call that reads waits at most twice the
// fleet's timeout. Without nodes it returns this proxy's keys.
func (x *Exchange) HotKeys() (keys []observe.HotKey, proxies int) {
	others := x.readOthers()
	sums := make(map[string]*observe.HotKey)
	own := x.own.HotKeys(math.MaxInt)
	for i := range own {
		sums[string(own[i].Key)] = &own[i]
	}
	for _, name := range slices.Sorted(maps.Keys(others)) {
		for _, k := range others[name].Keys {
			if sum := sums[string(k.Key)]; sum != nil {
				add(sum, &k)
			} else {
				k := observe.HotKey(k)
				sums[string(k.Key)] = &k
			}
		}
	}
	for _, sum := range sums {
		keys = append(keys, *sum)
	}
	observe.Sort(keys, observe.ByRate)
	return keys, 1 + len(others)
}

// add adds the key of another proxy to sum, which keeps the limit and the remaining units of the first proxy.
func add(sum *observe.HotKey, k *key) {
	sum.Rate += k.Rate
	sum.DeniedRate += k.DeniedRate
	sum.Decisions += k.Decisions
	sum.Admitted += k.Admitted
	sum.Denied += k.Denied
	sum.ByFail += k.ByFail
	sum.Refused += k.Refused
	sum.ShadowDenied += k.ShadowDenied
	sum.Drawn += k.Drawn
	sum.Lapsed += k.Lapsed
	sum.Overrun += k.Overrun
	sum.Shards = max(sum.Shards, k.Shards)
	if sum.Remaining < 0 {
		sum.Limit, sum.Remaining = k.Limit, k.Remaining
	}
}

// Stats returns what INFO and metrics show of the exchange.
func (x *Exchange) Stats() []engine.Stat {
	return []engine.Stat{
		{Name: "hotkeys_other_proxies", Value: x.others.Load()},
		{Name: "hotkeys_records_ignored", Value: x.ignored.Load(), Metric: "hotkeys_records_ignored_total",
			Help: "Records of other proxies' busiest keys that made no sense."},
	}
}
