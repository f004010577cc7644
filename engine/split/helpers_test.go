package split

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// clock is the nodes' clock in the replies of these tests, in ms.
const clock = conformance.Base

// fakeNodes implements Nodes without servers: the test sets the replies.
type fakeNodes struct {
	fleet *backend.Fleet
	reply func(c *Call) // sets the reply or the failure of a call
	now   atomic.Int64  // the splitter's clock in ms
	log   strings.Builder

	mu     sync.Mutex
	posted []*Call // calls of Post; guarded by mu
}

func (n *fakeNodes) Topology() *backend.Topology { return n.fleet.Topology() }

func (n *fakeNodes) Call(_ []byte, calls []*Call) {
	for _, c := range calls {
		n.reply(c)
	}
}

func (n *fakeNodes) Post(_ []byte, c *Call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.posted = append(n.posted, c)
}

// open returns a splitter with this number of fake nodes.
func open(t *testing.T, nodes int, config Config) (*Splitter, *fakeNodes) {
	t.Helper()
	var urls []string
	for i := range nodes {
		urls = append(urls, fmt.Sprintf("redis://127.0.0.1:%d", i+1))
	}
	n := &fakeNodes{}
	logger := slog.New(slog.NewTextHandler(&n.log, nil))
	fleet, err := backend.Open(backend.Config{Backends: urls, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	n.fleet = fleet
	n.now.Store(1000)
	config.Now, config.Logger = n.now.Load, logger
	s := New(config, n)
	t.Cleanup(s.Close)
	return s, n
}

// ask returns a request of cost 1 that wants its key to be split over shards.
func ask(key string, most int64, shards int) engine.Request {
	r := conformance.Slide(key, most, 60_000, 1)
	r.Shards = shards
	return r
}

// refusal returns the refusal of a shard whose lease has ended, at its clock at.
func refusal(shard int, at int64) *wire.Refusal {
	return &wire.Refusal{
		Refusal: lease.Refusal{Shard: shard, Clock: at, LeaseEnded: true, Used: []lease.Units{{N: 0}}}, First: []int64{5},
	}
}

// left returns requests that a shard left to the home with a refusal, or for which no shard was
// asked if the refusal is nil.
func left(refusal *wire.Refusal, requests ...engine.Request) (out []*Request) {
	for i := range requests {
		out = append(out, &Request{Request: &requests[i], Result: new(engine.Result), Index: i, Refusal: refusal})
	}
	return out
}

// bytesOf encodes integers, big-endian. Its arguments are size, value, size, value ...
func bytesOf(pairs ...int64) (b []byte) {
	for i := 0; i < len(pairs); i += 2 {
		for at := pairs[i] - 1; at >= 0; at-- {
			b = append(b, byte(pairs[i+1]>>(8*at)))
		}
	}
	return b
}

// lent is a shard with units on loan, in a home's reply about one window.
type lent struct {
	shard, incarnation, units int64
	states                    []lease.State // states to recall; nil: the shard is not recalled
}

// homeReply returns a home's reply about one window: the number of requests granted, each with a cost
// of 1, the number of shards, the home's own use before them, and what it has lent.
func homeReply(granted, shards, own int64, lends ...lent) string {
	used, out := own, int64(0)
	for _, l := range lends {
		used, out = used+l.units, out+l.units
	}
	b := bytesOf(6, clock, 4, granted, 3, 0, 2, shards, 6, used, 6, own+granted, 6, 500, 6, clock, 6, 0, 6, out, 2, int64(len(lends)))
	recalls, count := []byte(nil), int64(0)
	for _, l := range lends {
		b = append(b, bytesOf(4, l.shard, 6, l.incarnation, 6, l.units)...)
		if l.states == nil {
			continue
		}
		count++
		recalls = append(recalls, bytesOf(4, l.shard, 7, 9, 1, 0, 1, int64(len(l.states)))...)
		for _, s := range l.states {
			recalls = append(recalls, bytesOf(1, int64(s.Kind), 5, max(s.Buckets, 1), 5, s.Window)...)
		}
	}
	return string(b) + string(bytesOf(2, count)) + string(recalls)
}

// shardReport returns a shard's report about one state.
func shardReport(incarnation, used, first, held int64) string {
	return string(bytesOf(7, 9, 6, incarnation, 1, 0, 6, 700, 6, clock, 6, used, 6, first, 6, held, 5, 10, 3, 2, 6, clock, 6, 0))
}

// slideState is the state that ask charges.
var slideState = lease.State{Kind: byte(limit.Slide), Window: 60_000}

// script returns a function that replies for the home with each of the given replies in turn,
// then with the last one repeatedly, and for each shard with its report.
func script(home []string, shards map[int]string) func(c *Call) {
	at := 0
	return func(c *Call) {
		switch c.Function {
		case lua.Lend:
			c.Reply = home[min(at, len(home)-1)]
			at++
		case lua.Recall:
			if c.Reply = shards[c.Shard]; c.Reply == "" {
				c.Failure = &Failure{Shard: c.Shard, Why: "no answer in time", MaybeApplied: true}
			}
		case lua.Forget:
			c.Reply = wire.Forgotten
		}
	}
}
