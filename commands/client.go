package commands

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// maxBatch is how many requests may wait before the engine is asked, so that a
// large pipeline needs bounded memory.
const maxBatch = 4096

// flushAt is how many bytes of replies are kept before they are written, although
// the pipeline goes on.
const flushAt = 256 << 10

// client is what the handler keeps of a session. Only the session's goroutine
// uses it, except for seen and shown, which other sessions' CLIENT LIST reads.
type client struct {
	h *Handler
	s *resp.Session

	acl     *ACL  // the rules that the session goes by
	user    *User // nil until a login, where one is needed
	pipe    engine.Pipeline
	pending []entry // commands not yet answered, in order
	tx      transaction
	subs    []string // channels, in the order of subscription
	subSize int      // bytes in subs

	// CLIENT REPLY: off until ON; skip for this command; skipNext for the next.
	off, skip, skipNext bool

	own facts // what the client told of itself
	cmd *row  // the last command answered

	seen atomic.Int64 // ms since the epoch of the last pipeline

	mu    sync.Mutex
	shown facts // for CLIENT LIST of other sessions; guarded by mu, written by publish
}

// facts is what CLIENT LIST tells of a session.
type facts struct {
	name    string // CLIENT SETNAME
	lib     string // CLIENT SETINFO LIB-NAME
	libVer  string // CLIENT SETINFO LIB-VER
	tracked bool   // CLIENT TRACKING ON
	noEvict bool
	noTouch bool

	user  string
	cmd   string
	proto int
	subs  int // channels
	multi int // commands queued since MULTI, -1 outside
}

// entry is a command that waits for its reply.
type entry struct {
	row  *row
	args [][]byte // of a row that runs here, or of an ordinary command
	n    int      // requests that the command made
	err  string   // the reply, when parsing failed
	mute bool     // CLIENT REPLY says not to answer
}

// accept takes the next command. The checks stand in Redis's order.
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

// find returns a command's row, nil if there is none, and the error that refuses the
// command.
func (c *client) find(args [][]byte) (*row, string) {
	r := c.h.table.get(args[0])
	if r == nil {
		// Redis would tell an unknown command from one that needs a login. Without a
		// list of its commands this cannot, and both are refused alike.
		if c.user == nil {
			return nil, errNoAuth
		}
		if !c.h.cfg.Passthrough {
			return nil, unknownCommand(args)
		}
		r = &forwardRow
	}
	if len(r.subs) > 0 && len(args) > 1 {
		sub := c.h.table.sub(r, args[1])
		switch {
		case sub != nil:
			r = sub
		case c.h.cfg.Passthrough:
			r = &forwardRow
		default:
			return nil, unknownSubcommand(r, args[1])
		}
	}
	switch {
	case !r.fits(len(args)):
		return r, r.wrong
	case c.user == nil && !r.early:
		return r, errNoAuth
	case c.user != nil && !c.user.free:
		if msg := c.denied(r, args); msg != "" {
			return r, msg
		}
	}
	if len(c.subs) > 0 && c.s.Proto < 3 && !r.subscribed {
		return r, "ERR Can't execute '" + r.name + "': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"
	}
	if r == &forwardRow && c.tx.open {
		return r, c.refusal(args)
	}
	return r, ""
}

// denied returns the error of a command that the user's rules refuse, or an empty
// one, and counts it.
func (c *client) denied(r *row, args [][]byte) string {
	var msg string
	if r == &forwardRow {
		msg = c.notAllowed(args)
	} else {
		msg = c.user.refusal(r, args)
	}
	switch {
	case msg == errNoKey:
		c.h.noKey.Add(1)
	case strings.HasPrefix(msg, errNoRun):
		c.h.noCommand.Add(1)
	}
	return msg
}

// reject answers with an error, which also spoils an open transaction, or ends it
// if EXEC is what was wrong.
func (c *client) reject(r *row, msg string) {
	c.tx.spoiled = c.tx.open
	if r != nil && r.name == "exec" {
		c.tx = transaction{}
		msg = errExecRefused + strings.TrimPrefix(msg, "ERR ")
	}
	c.push(entry{err: msg})
}

// dispatch runs a command now, or parses it for the next flush.
func (c *client) dispatch(r *row, args [][]byte) {
	switch {
	case r.barrier:
		c.flush()
		c.cmd = r
		mark := len(c.s.Out)
		r.run(c, args)
		if (c.off || c.skip) && !r.loud {
			c.s.Out = c.s.Out[:min(mark, len(c.s.Out))] // less if it was written meanwhile
		}
	case r.run != nil:
		c.push(entry{row: r, args: args})
	default:
		n := len(c.pipe.Requests)
		if msg := r.parse(args, &c.pipe); msg != "" {
			c.pipe.Requests = c.pipe.Requests[:n]
			c.push(entry{err: msg})
			return
		}
		e := entry{row: r, n: len(c.pipe.Requests) - n}
		if r == &forwardRow {
			e.args = args
			c.pipe.Requests[n].RESP3 = c.s.Proto == 3
		}
		c.push(e)
	}
}

// push adds a command that waits.
func (c *client) push(e entry) {
	e.mute = c.off || c.skip
	c.pending = append(c.pending, e)
	if len(c.pending) >= maxBatch || len(c.pipe.Requests) >= maxBatch {
		c.flush()
	}
}

// flush asks the engine and appends the replies of all commands that wait.
func (c *client) flush() {
	if len(c.pending) == 0 {
		return
	}
	if len(c.pipe.Requests) > 0 {
		c.h.cfg.Engine.Do(&c.pipe)
	}
	results := c.pipe.Results
	for i := range c.pending {
		e := &c.pending[i]
		mark := len(c.s.Out)
		if e.row != nil {
			c.cmd = e.row
		}
		switch {
		case e.err != "":
			c.s.Out = resp.AppendError(c.s.Out, e.err)
		case e.row.run != nil:
			e.row.run(c, e.args)
		case e.row == &forwardRow:
			if !e.mute {
				c.forwarded(e.args, &results[0])
			}
			results = results[1:]
		default:
			c.s.Out = e.row.reply(c.s.Out, c.s.Proto, results[:e.n])
			results = results[e.n:]
		}
		if e.mute {
			c.s.Out = c.s.Out[:mark]
		}
		if len(c.s.Out) > flushAt {
			c.s.Flush()
		}
	}
	clear(c.pending) // lets go of the connection's buffer
	if cap(c.pending) > 1024 {
		c.pending = nil
	}
	c.pending = c.pending[:0]
	c.pipe.Reset()
}
