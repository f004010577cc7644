package commands

import (
	"bytes"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/waiting"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// A command with BLOCK ends its pipeline. It is decided with the commands before it, unless others wait for its key. If
// it was denied and may wait, it is taken out of the pipeline before that is counted and answered, and the session is
// suspended. Commands of a transaction do not wait, as in Redis.

// blocked is a command that waits.
type blocked struct {
	waiting.Waiter
	command pendingCommand // without its words
	asked   time.Time      // when it was asked before it began to wait, or came
	took    time.Duration  // how long that took
	size    int            // bytes reserved for it
}

// waiterBytes is the memory of a command that waits, in addition to its key and its id.
const waiterBytes = 1536

// blocks reports whether the last command may wait.
func (c *client) blocks() bool {
	n := len(c.pipe.Requests)
	return n > 0 && c.pipe.Requests[n-1].Block > 0
}

// await answers the commands up to the last one, which may wait. It reports whether that one does.
func (c *client) await() bool {
	c.came = time.Now()
	c.queueUp()
	c.flush()
	return c.blocked != nil
}

// queueUp has the last command wait without being asked if others wait for its key.
func (c *client) queueUp() {
	if c.h.cfg.Waiting.Busy(&c.pipe.Requests[len(c.pipe.Requests)-1]) {
		c.setAside(nil)
	}
}

// waitIfDenied has the last command wait if it may, and its denial does not say that this is in vain.
func (c *client) waitIfDenied(took time.Duration) {
	if !c.blocks() {
		return
	}
	n := len(c.pipe.Requests) - 1
	r, res := &c.pipe.Requests[n], &c.pipe.Results[n]
	switch {
	case res.Allowed || res.Err != nil || res.Fail != engine.FailDefault || r.Shadow || r.Verdict != engine.VerdictNone:
	case waiting.InVain(r, res, c.came):
	default:
		c.setAside(res)
		if c.blocked != nil {
			c.blocked.took = took
		}
	}
}

// setAside takes the last command out of the pipeline, to wait. denied is its denial; nil if it was not asked.
func (c *client) setAside(denied *engine.Result) {
	n, last := len(c.pipe.Requests)-1, &c.pending[len(c.pending)-1]
	r := c.pipe.Requests[n]
	c.cmd = last.row.Name
	size := waiterBytes + len(r.Key) + len(r.ID)
	if !c.s.Reserve(size) {
		c.refuse(reply.ErrNoRoom)
		return
	}
	r.Key, r.ID, r.Clock = bytes.Clone(r.Key), bytes.Clone(r.ID), 0
	b := &blocked{command: *last, asked: c.came, size: size, Waiter: waiting.Waiter{
		Request: r, Client: c.s.ID, Came: c.came, Gone: c.s.Gone, Wake: c.s.Resume,
	}}
	b.command.args = nil
	if !c.h.cfg.Waiting.Join(&b.Waiter, denied) {
		c.s.Reserve(-size)
		c.refuse(reply.ErrWaiting)
		return
	}
	c.blocked = b
	c.pipe.Truncate(n)
	*last = pendingCommand{}
	c.pending = c.pending[:len(c.pending)-1]
}

// refuse answers the last command, which cannot wait, with an error.
func (c *client) refuse(msg string) {
	n, last := len(c.pipe.Requests)-1, &c.pending[len(c.pending)-1]
	c.unclaim(&c.pipe.Requests[n], last)
	c.pipe.Truncate(n)
	last.err, last.n = msg, 0
}

// unclaim ends what slots.Conn.Claim has begun for a command that is not answered.
func (c *client) unclaim(r *engine.Request, command *pendingCommand) {
	if command.row.tied != nil {
		c.slots.Done([]engine.Request{*r}, make([]engine.Result, 1), command.tied)
	}
}

// Resume implements resp.Starter.
func (h *Handler) Resume(s *resp.Session) {
	c := s.Data.(*client)
	c.workspace = workspaces.Get().(*workspace)
	b, answer := c.leave()
	command := b.command
	if b.Refused == "" {
		*c.pipe.Add() = b.Request
		c.pipe.Results = append(c.pipe.Results, answer)
		c.observe(b.asked, b.took)
	} else {
		c.unclaim(&b.Request, &command)
		command.err, command.n = b.Refused, 0
	}
	c.pending = append(c.pending, command)
	c.reply(0) // what it has waited is not counted as work
	c.release()
}

// leave ends the wait of the session's command, and returns it and its answer.
func (c *client) leave() (*blocked, engine.Result) {
	b := c.blocked
	c.blocked = nil
	answer := c.h.cfg.Waiting.Leave(&b.Waiter)
	c.s.Reserve(-b.size)
	return b, answer
}
