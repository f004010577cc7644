package commands

import (
	"errors"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/forward"
)

// forwardRow is the row of every command that is not in the table, if there is a Forwarder.
var forwardRow = row{Command: table.Command{Name: "forward", Arity: -1}}

// Forwarder sends commands to the nodes of their keys. It is implemented by forward.Forwarder.
type Forwarder interface {
	// On reports whether commands are forwarded. If not, Start, Join and Describe treat every command as unknown.
	On() bool

	// Start sends the commands of a pipeline.
	Start(p *forward.Pipeline)
	// Wait waits until all commands of the pipeline have their results, or until replies must be
	// written to make room for further ones.
	Wait(p *forward.Pipeline)
	// Await returns the result of command i of the pipeline.
	Await(p *forward.Pipeline, i int) *forward.Result

	// Join adds a command to a transaction. It returns the error reply if the command cannot be
	// part of the transaction.
	Join(p *forward.Pipeline, t *forward.Transaction, args [][]byte) error

	// Describe describes a command for permission checks.
	Describe(p *forward.Pipeline, args [][]byte) (forward.Description, error)

	// Commands returns the commands that are forwarded, for COMMAND.
	Commands(p *forward.Pipeline) []forward.NodeCommand

	// ReadsLimits reports whether a command may read the state of rate limits.
	ReadsLimits(p *forward.Pipeline, args [][]byte) bool
}

func (h *Handler) forwards() bool { return h.cfg.Forward != nil && h.cfg.Forward.On() }

// The forwarded commands and the decisions of a pipeline run at the same time, since they have no keys in common. But a
// command that may read the state of rate limits runs after the decisions before it, and before the decisions after it.

// addForwardInOrder adds a forwarded command to the pending ones. If the command may read the state of
// rate limits, addForwardInOrder flushes the decisions before it first.
func (c *client) addForwardInOrder(args [][]byte) {
	if len(c.pipe.Requests) > 0 {
		if c.h.cfg.Forward.ReadsLimits(&c.forward, args) {
			c.flush()
		} else {
			c.checked++ // beforeDecision has checked the others
		}
	}
	c.queueForward(args)
}

// beginForward prepares the workspace for forwarded commands of this pipeline, once. Other pipelines need
// none of engine/forward.
func (c *client) beginForward() {
	if !c.forwarding {
		c.forward.Begin()
		c.forwarding = true
	}
}

// queueForward adds a forwarded command to the pending ones.
func (c *client) queueForward(args [][]byte) {
	c.forward.Add(args, c.s.Proto == 3)
}

// beforeDecision flushes the forwarded commands if one of them may read the state of rate
// limits, since a decision follows.
func (c *client) beforeDecision() {
	for ; c.checked < len(c.forward.Commands); c.checked++ {
		if c.h.cfg.Forward.ReadsLimits(&c.forward, c.forward.Commands[c.checked].Args) {
			c.flush()
			return
		}
	}
}

// refusal returns the error reply to a command to be forwarded that MULTI refuses to queue, or "".
func (c *client) refusal(args [][]byte) string {
	if err := c.h.cfg.Forward.Join(&c.forward, &c.tx.forwarded, args); err != nil {
		return c.forwardError(args, err)
	}
	return ""
}

// forwardError returns the error reply to a forwarded command that failed with err.
func (c *client) forwardError(args [][]byte, err error) string {
	switch {
	case errors.Is(err, forward.ErrUnknownCommand):
		if own := c.h.table.get(args[0]); own != nil && own.under == nil { // an unknown subcommand of it was forwarded
			return reply.UnknownSubcommand(own.Name, args[1])
		}
		return c.h.table.unknown(args)
	case errors.Is(err, forward.ErrUnknownSubcommand):
		return reply.UnknownSubcommand(string(args[0]), args[1])
	}
	return err.Error()
}

// maxCopy is the most bytes of a reply that are copied to the session's output.
const maxCopy = 256 << 10

// forwarded passes a node's reply on byte for byte, unless the command gets no reply, and releases its
// memory. It counts and reports whether the reply is an error.
func (c *client) forwarded(e *pendingCommand, res *forward.Result) (failed bool) {
	defer c.forward.Release(res)
	if res.Err != nil {
		c.Error(c.forwardError(e.args, res.Err))
		return true
	}
	if failed = len(res.Raw) > 0 && res.Raw[0] == '-'; failed {
		c.h.stats.Error(res.Raw[1:])
	}
	if e.mute {
		return failed
	}
	c.pass(res.Raw)
	for _, b := range res.Rest {
		c.pass(b)
	}
	return failed
}

// pass passes on a part of a reply.
func (c *client) pass(b []byte) {
	if len(b) > maxCopy {
		c.s.Pass(b)
		return
	}
	c.s.Out = append(c.s.Out, b...)
	c.s.FlushIfLarge()
}
