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

// lent is a shard with units on loan, in a home's reply about one window.
type lent struct {
	shard              int
	incarnation, units int64
	states             []lease.StateName // states to recall; nil: the shard is not recalled
}

// homeReply returns a home's reply about one window: the number of requests granted, each with a cost
// of 1, the number of shards, the home's own use before them, and what it has lent.
func homeReply(granted int64, shards int, own int64, lends ...lent) string {
	return string(wire.Pack(&wire.Lent{Home: reply(granted, shards, own, lends...)}))
}

// wholeReply returns a home's reply about no window.
func wholeReply(shards int, lends ...lent) string {
	h := reply(0, shards, 0, lends...)
	h.Tallies = nil
	for i := range h.Lent {
		h.Lent[i].Out, h.Lent[i].Empty = nil, nil
	}
	return string(wire.Pack(&wire.Lent{Home: h}))
}

func reply(granted int64, shards int, own int64, lends ...lent) *wire.HomeReply {
	h := &wire.HomeReply{Clock: clock, Shards: shards}
	h.Granted = granted
	t := wire.Tally{Used: own, Own: own + granted, First: 500, Empty: clock}
	for _, l := range lends {
		t.Used, t.Lent = t.Used+l.units, t.Lent+l.units
		h.Lent = append(h.Lent, wire.Loaned{Shard: l.shard, Incarnation: l.incarnation, Out: []int64{l.units}, Empty: []int64{clock}})
		if l.states != nil {
			h.Recalls = append(h.Recalls, lease.Recall{Shard: l.shard, Seq: 9, States: l.states})
		}
	}
	h.Tallies = []wire.Tally{t}
	return h
}

// shardReport returns a shard's report about slideState, which has 10 as its limit.
func shardReport(shard int, incarnation, used, first, held int64) string {
	return string(wire.Pack(&wire.ShardReport{
		Report: lease.Report{Shard: shard, Seq: 9, Incarnation: incarnation, Used: []lease.Units{{StateName: slideState, N: used}}},
		Clock:  clock, LeaseLeft: 700, First: []int64{first}, Empty: []int64{clock}, Held: []int64{held}, Limit: []int64{10}, Rate: []int64{2},
	}))
}

// lendOf returns what a home was asked.
func lendOf(c *Call) (m wire.Lend) {
	if err := wire.Unpack(string(c.Args[0]), &m); err != nil || len(c.Args) > 1 {
		panic(fmt.Sprintf("%q: %v", c.Args, err))
	}
	return m
}

// forgotten returns the reply of a home that has forgotten the key, or has not.
func forgotten(all bool) string { return string(wire.Pack(&wire.Forgotten{Forgotten: all})) }

// slideState is the state that ask charges.
var slideState = lease.StateName{Kind: byte(limit.Slide), Window: 60_000}

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
			c.Reply = forgotten(true)
		}
	}
}
