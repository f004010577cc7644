package commands

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/slots"
	"github.com/rlproxy/rlproxy/commands/stats"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/resp"
)

// maxBatch is how many requests may wait before they are sent to the engine, and how many requests of one command are
// made at a time, so that large pipelines and long commands take bounded memory.
const maxBatch = 1024

// client is the handler's state of a session. Like the session, it is used by one goroutine at a time.
type client struct {
	reply.Writer // writes replies to the session

	h *Handler
	s *resp.Session

	acl     *acl.Users // the rules that apply to the session
	user    *acl.User  // nil while a login is needed
	refused int        // logins of this session that were refused
	tx      transaction
	subs    []string // channels, in the order of subscription
	subSize int      // bytes in subs
	slots   slots.Conn
	blocked *blocked  // the command that waits (BLOCK); nil: none does
	came    time.Time // when the last command with BLOCK arrived

	executing bool // EXEC runs, whose commands do not wait

	*workspace           // nil while no pipeline is processed
	sent       time.Time // when the pipeline was started, if it was
	finish     func()    // resp.Session.Finish as a func value, created once so that calls do not allocate

	off      bool // CLIENT REPLY OFF: no replies until ON
	skip     bool // CLIENT REPLY SKIP: no reply to the current command
	skipNext bool // CLIENT REPLY SKIP: no reply to the next command

	own    clients.Facts   // what the client has set about itself
	cmd    string          // the name of the command that was answered last; empty if it is unknown
	failed bool            // the reply to the current command is an error
	public *clients.Client // what other sessions see of this one
}

// workspace is what processing a pipeline takes. Sessions share a pool of them, so that one that is silent has none.
type workspace struct {
	pipe       engine.Pipeline  // requests to the engine
	forward    forward.Pipeline // forwarded commands
	forwarding bool             // forward.Begin was called for this pipeline
	checked    int              // how many commands of forward are known not to read the state of rate limits
	pending    []pendingCommand // commands that are not answered yet, in order
}

var workspaces = sync.Pool{New: func() any {
	const usual = 64 // commands of a pipeline
	return &workspace{
		pipe:    engine.Pipeline{Requests: make([]engine.Request, 0, usual), Results: make([]engine.Result, 0, usual)},
		pending: make([]pendingCommand, 0, usual),
	}
}}

// pendingCommand is a command that waits for its reply.
type pendingCommand struct {
	row  *row     // nil if the command was rejected
	args [][]byte // the command's words; nil if it was rejected
	n    int      // the number of the command's requests to the engine
	err  string   // the error reply to a command that was rejected or is wrong
	mute bool     // CLIENT REPLY suppresses the reply
	tied bool     // the command ties leases to the connection
}

// accept processes the next command. Its checks are in Redis's order.
func (c *client) accept(args [][]byte) {
	if len(args) == 0 {
		return
	}
	r, msg := c.find(args)
	switch {
	case msg != "":
		c.reject(r, msg)
	case c.tx.open && !r.direct:
		c.enqueue(r, args)
	default:
		c.dispatch(r, args)
	}
	c.skip, c.skipNext = c.skipNext, false
}

// find returns the row of a command, or nil if there is none, and the error reply if the command is refused.
func (c *client) find(args [][]byte) (*row, string) {
	r := c.h.table.get(args[0])
	if r == nil || r.under != nil { // client|id is no command
		// Redis distinguishes unknown commands from those that need a login. rlproxy has no
		// list of Redis's commands and refuses both in the same way.
		if c.user == nil {
			return nil, reply.ErrNoAuth
		}
		if !c.h.forwards() {
			return nil, c.h.table.unknown(args)
		}
		r = &forwardRow
	}
	if len(r.subs) > 0 && len(args) > 1 {
		sub := c.h.table.sub(r, args[1])
		switch {
		case c.h.forwards() && (sub == nil || c.h.table.asksNode(sub, args)):
			r = &forwardRow
		case sub != nil:
			r = sub
		default:
			return nil, reply.UnknownSubcommand(r.Name, args[1])
		}
	}
	if r == &forwardRow {
		c.beginForward() // before the checks, which may ask a node about the command
	}
	switch {
	case !r.Fits(len(args)):
		return r, r.ArityError()
	case c.user == nil && !r.early:
		return r, reply.ErrNoAuth
	case c.user != nil && !c.user.Unrestricted():
		if msg := c.denied(r, args); msg != "" {
			return r, msg
		}
	}
	if len(c.subs) > 0 && c.s.Proto < 3 && !r.subscribed {
		return r, "ERR Can't execute '" + r.Name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET " +
			"are allowed in this context"
	}
	switch {
	case r == &forwardRow && c.tx.open:
		return r, c.refusal(args)
	case r.alone != "" && c.h.forwards():
		return r, r.alone
	}
	return r, ""
}

// reject replies with an error. It also spoils an open transaction, or ends it if the command is EXEC.
func (c *client) reject(r *row, msg string) {
	c.tx.spoiled = c.tx.open
	if r != nil && r.Name == "exec" {
		c.endTransaction()
		msg = reply.ErrExecRefused + strings.TrimPrefix(msg, "ERR ")
	}
	if r != nil {
		r.counts.Reject()
	}
	c.push(pendingCommand{err: msg})
}

// dispatch runs a command at once, or adds it to the commands of the next flush.
func (c *client) dispatch(r *row, args [][]byte) {
	switch {
	case r.barrier:
		c.flush()
		if muted := c.run(r, args, (c.off || c.skip) && !r.loud); !c.off && !c.skip {
			c.s.Out = append(c.s.Out, muted...) // CLIENT REPLY ON
		}
	case r.run != nil:
		c.push(pendingCommand{row: r, args: args})
	case r == &forwardRow && len(args) > maxBatch:
		c.flush() // alone, it may go to its nodes in pieces
		c.queueForward(args)
		c.push(pendingCommand{row: r, args: args})
		c.flush()
	case r == &forwardRow:
		c.addForwardInOrder(args)
		c.push(pendingCommand{row: r, args: args})
	case r.mergeCount != nil && len(args) > maxBatch/2: // a key may be two requests
		c.flush()
		c.run(r, args, c.off || c.skip)
	default:
		if c.checked < len(c.forward.Commands) {
			c.beforeDecision()
		}
		n := len(c.pipe.Requests)
		e := pendingCommand{row: r, args: args, err: r.parse(args, &c.pipe)}
		if e.err == "" && r.tied != nil {
			e.tied = r.tied(args)
			e.err = c.slots.Claim(&c.pipe.Requests[n], e.tied)
		}
		if e.err == "" && (c.executing || c.h.cfg.Waiting == nil) {
			c.pipe.Requests[n].Block = 0
		}
		if e.err != "" {
			c.pipe.Truncate(n)
		}
		e.n = len(c.pipe.Requests) - n
		c.push(e)
	}
}

// run runs a command in the session, and counts it. With mute its reply is not written: run
// returns it, or the last part of a long one.
func (c *client) run(r *row, args [][]byte, mute bool) (muted []byte) {
	c.cmd = r.Name
	if r.counts != nil { // else it only replies that a command is queued
		began := time.Now()
		c.failed = false
		defer func() { c.countRun(r, args, time.Since(began)) }()
	}
	run := r.run
	if run == nil {
		run = func(c *client, args [][]byte) { c.inPieces(r, args) }
	}
	if !mute || c.s.Muted {
		run(c, args)
		return nil
	}
	out := c.s.Out
	c.s.Out, c.s.Muted = nil, true
	run(c, args)
	muted, c.s.Out, c.s.Muted = c.s.Out, out, false
	return muted
}

// inPieces answers a command about very many keys or ids piece by piece, so that it takes little memory and other
// clients' requests come in between. All are checked first. A piece that fails ends the command.
func (c *client) inPieces(r *row, args [][]byte) {
	total, nothing := int64(0), ""
	for _, checked := range []bool{false, true} {
		for piece := range slices.Chunk(args[r.keepWords:], maxBatch/2) {
			msg := r.parse(slices.Concat(args[:r.keepWords], piece), &c.pipe)
			if msg == "" && checked {
				c.decide()
				if r.tied != nil {
					c.slots.Done(c.pipe.Requests, c.pipe.Results, false)
				}
				if r.nothing != nil && nothing == "" {
					nothing = r.nothing(c.pipe.Requests)
				}
				n, err := r.mergeCount(c.pipe.Results)
				if total += n; err != nil {
					msg = err.Error()
				}
			}
			c.pipe.Reset()
			if msg != "" {
				c.Error(msg)
				return
			}
		}
	}
	if total == 0 && nothing != "" {
		c.Error(nothing)
		return
	}
	c.Int(total)
}

// decide sends the requests to the engine and the forwarded commands to the nodes, and returns
// how long the pipeline waited for their results.
func (c *client) decide() (took time.Duration) {
	forwards := len(c.forward.Commands) > 0
	if !forwards && len(c.pipe.Requests) == 0 {
		return 0
	}
	sent := time.Now()
	if forwards {
		c.h.cfg.Forward.Start(&c.forward)
	}
	if len(c.pipe.Requests) > 0 {
		c.h.cfg.Engine.Do(&c.pipe)
		took = time.Since(sent)
		c.waitIfDenied(took)
		c.observe(sent, took)
	}
	if forwards {
		c.h.cfg.Forward.Wait(&c.forward)
		took = time.Since(sent)
	}
	return took
}

func (c *client) observe(sent time.Time, took time.Duration) {
	c.h.cfg.Observer.Observe(&c.pipe, sent, took, observe.Sender{Addr: c.s.Remote, Name: c.own.Name})
}

// push adds a command to the pending ones.
func (c *client) push(e pendingCommand) {
	e.mute = c.off || c.skip
	c.pending = append(c.pending, e)
	// A command may have many requests. One with BLOCK is flushed by await.
	if (len(c.pending) >= maxBatch || len(c.pipe.Requests) >= maxBatch) && !c.blocks() {
		c.flush()
	}
}

// flush sends the requests to the engine and the forwarded commands to the nodes, and appends
// the replies to all commands that wait.
func (c *client) flush() {
	if len(c.pending) > 0 {
		c.reply(c.decide())
	}
}

// reply appends the replies to all commands that wait. Their results took that long.
func (c *client) reply(took time.Duration) {
	if c.h.stats.Slow.Slow(took) {
		c.logPipeline(took)
	}
	requests, results, forwarded, same := c.pipe.Requests, c.pipe.Results, 0, streak{took: took}
	for i := range c.pending {
		e := &c.pending[i]
		mark := len(c.s.Out)
		if e.row != nil {
			c.cmd = e.row.Name
		}
		switch {
		case e.err != "":
			c.Error(e.err)
			var command *stats.CommandStats
			if e.row != nil {
				command = e.row.counts
			}
			same.add(command)
			same.failed++
		case e.row.run != nil:
			c.run(e.row, e.args, e.mute)
			continue
		case e.row == &forwardRow:
			res := c.h.cfg.Forward.Await(&c.forward, forwarded)
			forwarded++
			c.cmd = res.Name
			same.add(c.h.stats.Command(c.cmd))
			if c.forwarded(e, res) {
				same.failed++
			}
		default:
			c.s.Out = e.row.reply(c.s.Out, c.s.Proto, requests[:e.n], results[:e.n])
			if e.row.tied != nil {
				c.slots.Done(requests[:e.n], results[:e.n], e.tied)
			}
			requests, results = requests[e.n:], results[e.n:]
			same.add(e.row.counts)
			if c.s.Out[mark] == '-' {
				c.h.stats.Error(c.s.Out[mark+1:])
				same.failed++
			}
		}
		if e.mute {
			c.s.Out = c.s.Out[:mark]
		}
		c.s.FlushIfLarge()
	}
	same.next(nil)
	c.failed = false // EXEC is not what it ran
	clear(c.pending) // releases the connection's buffer
	if cap(c.pending) > 1024 {
		c.pending = nil
	}
	c.pending = c.pending[:0]
	c.pipe.Reset()
	if len(c.forward.Commands) > 0 {
		c.forward.Reset()
		c.checked = 0
	}
}

// release ends the processing of a pipeline.
func (c *client) release() {
	c.forwarding = false
	workspaces.Put(c.workspace) // it is lost in a panic, whose requests may be under way
	c.workspace = nil
	c.publish()
}
