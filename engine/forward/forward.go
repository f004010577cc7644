// Package forward sends commands that rlproxy does not implement to the nodes of their keys, and returns the replies
// byte for byte.
//
// A connection collects its commands in a Pipeline (pipeline.go). Start finds the route of each command (route.go),
// from the description in the nodes' COMMAND (table.go), the positions of its keys (package keyspec), and the rules
// about commands that are not forwarded (rules.go). Facts that all nodes agree on are asked of any node that answers
// (ask.go). A command with keys on several nodes is fanned out, and the replies are merged (fanout.go). The commands
// between MULTI and EXEC are kept on one node (transaction.go).
//
// Each node has a forward queue for each protocol (queue.go), with its own connections and workers, so that a slow
// command does not delay decisions on the same node. A worker sends the queued commands as one batch (batch.go), and
// copies the replies, without parsing them, to memory that is bounded over all clients (reply.go, room.go).
//
// No command is sent twice, unless a node of a cluster redirected it without running it. If its node does not answer, a
// command gets an engine.Unavailable error, and so do later commands of the pipeline on that node, without waiting
// again. Commands may read the state of rate limits but not write to it, and not touch rlproxy's functions (own.go).
// describe.go describes commands for permission checks, and traffic.go counts what is sent.
//
// Reading order: forward.go (this file), pipeline.go, route.go, table.go, ask.go, rules.go, own.go, transaction.go,
// fanout.go, queue.go, batch.go, reply.go, room.go, describe.go, traffic.go.
package forward

import (
	"cmp"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/forward/replies"
)

// Settings say which commands are forwarded. Configure changes them.
type Settings struct {
	// Off forwards no command: all are unknown.
	Off bool

	// Admin also forwards commands that administer a node.
	Admin bool

	// Timeout is how long a command waits for its node, which may be busy with another command. Default 5 s.
	Timeout time.Duration
}

// Config configures a Forwarder.
type Config struct {
	// Settings are those with which the forwarder begins.
	Settings

	// ReplyLimit is the most bytes of replies that one pipeline holds until they are written to its client. A reply
	// that exceeds it, and stays without room while others are written, becomes an error. Default 256 MiB.
	ReplyLimit int64
	// Reserve reserves delta bytes for replies, or releases them if delta is negative. It reports whether they were
	// available. A reply for which they are not becomes an error. nil: any number is available.
	Reserve func(delta int64) bool

	// MaxWaiting is the most commands that wait for one node, per protocol. Further ones are refused at once. Default
	// 100,000.
	MaxWaiting int

	Logger *slog.Logger // default slog.Default()
}

// Forwarder sends commands to the nodes of a fleet. It is safe for concurrent use by goroutines that each have their
// own Pipeline.
type Forwarder struct {
	parts

	answered atomic.Pointer[backend.Node] // the node that answered the last query of ask; nil before the first
}

// queues holds the forward queues of a node, indexed by resp2 and resp3.
type queues [2]*queue

// Indices in queues.
const (
	resp2 = iota
	resp3
)

// lanes are the nodes in use with their queues.
type lanes = backend.Lanes[queues]

// Open returns a forwarder to the nodes of a fleet, which must be closed after the forwarder. The forwarder connects to
// a node when there is a command for it.
func Open(fleet *backend.Fleet, config Config) *Forwarder {
	config.ReplyLimit = cmp.Or(config.ReplyLimit, 256<<20)
	config.MaxWaiting = cmp.Or(config.MaxWaiting, 100_000)
	config.Logger = cmp.Or(config.Logger, slog.Default())
	if config.Reserve == nil {
		config.Reserve = func(int64) bool { return true }
	}
	f := &Forwarder{parts: parts{config: config, fleet: fleet, began: time.Now()}}
	f.table.open(config.Logger, time.Now)
	f.queues.Fleet = fleet
	f.queues.OpenQueue = func(n *backend.Node) queues {
		t := new(traffic)
		return queues{newQueue(&f.parts, n, t, resp2), newQueue(&f.parts, n, t, resp3)}
	}
	f.Configure(config.Settings)
	return f
}

// Configure applies settings to the commands to come. Those that wait for a node get its reply.
func (f *Forwarder) Configure(s Settings) {
	s.Timeout = cmp.Or(s.Timeout, 5*time.Second)
	f.live.Store(&s)
}

// On reports whether commands are forwarded.
func (f *Forwarder) On() bool { return !f.live.Load().Off }

// Do answers the commands of p. It calls Start, Wait and Await.
func (f *Forwarder) Do(p *Pipeline) {
	f.Start(p)
	f.Wait(p)
	for i := range p.Results {
		f.Await(p, i)
	}
}

// Start sends the commands of p to their nodes. The caller must not use p until Wait has returned.
func (f *Forwarder) Start(p *Pipeline) {
	p.grow()
	p.changed.L, p.short = &p.mu, false
	p.memory.begin(&f.config)
	v, sent := f.lanes(), 0
	for i := range p.Commands {
		sent += f.send(p, v, i)
	}
	p.submit(v, sent, f.elapsed())
}

// Wait waits until all commands that Start sent have their results, or until there is no room for further replies
// before the first ones are written.
func (f *Forwarder) Wait(p *Pipeline) {
	if p.wait(func() bool { return p.short }) {
		f.merge(p)
	}
}

// Await returns the result of command i after Wait. There may be no room for further results before it is released.
func (f *Forwarder) Await(p *Pipeline, i int) *Result {
	r := &p.Results[i]
	if p.wait(func() bool { return r.done }) {
		f.merge(p)
	}
	f.pickAgain(p, i)
	p.noteSilence(r.Err)
	return r
}

// maxPicks is how often a command that picks a key is sent again because it has picked one of rate limits.
const maxPicks = 16

// pickAgain sends command i again for as long as its reply is a key of rate limits. At last it makes the reply a null,
// as if there were no key.
func (f *Forwarder) pickAgain(p *Pipeline, i int) {
	r := &p.Results[i]
	for tries := 0; r.traits&picksKey != 0 && replies.Begins(r.Raw, reservedPrefix); tries++ {
		switch {
		case tries < maxPicks:
			p.forget(r)
			v := f.lanes()
			p.submit(v, f.send(p, v, i), f.elapsed())
			p.wait(func() bool { return r.done })
		case p.Commands[i].RESP3:
			r.Raw = []byte("_\r\n")
		default:
			r.Raw = []byte("$-1\r\n")
		}
	}
}

// merge merges the results of the nodes for commands that were fanned out, once all are there.
func (f *Forwarder) merge(p *Pipeline) {
	for _, o := range p.fanouts {
		for o.merge(&p.Results[o.at]) {
			v := f.lanes()
			o.piece(v, pieceKeys)
			p.submit(v, p.groupAll(v, o), f.elapsed())
			p.wait(func() bool { return false })
		}
	}
	clear(p.fanouts)
	p.fanouts = p.fanouts[:0]
}

// send adds command i to the group of its node. It returns how many replies the command waits for: none if it has its
// result already.
func (f *Forwarder) send(p *Pipeline, v *lanes, i int) int {
	c, res := &p.Commands[i], &p.Results[i]
	row, r, err := f.route(p, v, c.Args)
	if row != nil {
		res.Name, res.traits = row.name, row.traits
	}
	if err != nil {
		res.Err, res.done = err, true
		return 0
	}
	var o *fanout
	switch {
	case r.scattered:
		o = byKeys(row, i, c)
		keys := len(c.Args)
		if len(p.Commands) == 1 {
			keys = pieceKeys // no command follows, which might overtake a later piece
		}
		o.piece(v, keys)
	case row.toAll(v, r):
		o = toAll(v, row, i, c)
	default:
		p.group(v, r.node, item{command: c, result: res, from: p, always: row.whileBusy})
		return 1
	}
	p.fanouts = append(p.fanouts, o)
	return p.groupAll(v, o)
}

// Close answers the queued commands and ends the workers. No caller may be in Do, and none may use the forwarder
// afterwards.
func (f *Forwarder) Close() error { return f.queues.Close() }

// lanes returns the nodes in use, whose queues it opens. It returns the same pointer until the topology changes.
func (f *Forwarder) lanes() *lanes { return f.queues.OpenAll() }

// Close implements io.Closer. It may be called twice.
func (qs queues) Close() error { return errors.Join(qs[resp2].close(), qs[resp3].close()) }
