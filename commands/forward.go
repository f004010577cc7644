package commands

import (
	"errors"

	"github.com/rlproxy/rlproxy/engine"
)

// forwardRow stands for every command that is not in the table when commands are
// passed through. The engine knows from its nodes where the keys are.
var forwardRow = row{
	name:  "forward",
	arity: -1,
	parse: func(args [][]byte, p *engine.Pipeline) string {
		r := p.Add()
		r.Op, r.Args = engine.OpForward, args
		return ""
	},
}

// forwarder is an engine that knows ordinary commands.
type forwarder interface {
	// CheckForward returns the error of a command that is refused before a node has
	// run it.
	CheckForward(args [][]byte) error
}

// refusal returns the error with which MULTI does not take an ordinary command, or
// an empty one.
func (c *client) refusal(args [][]byte) string {
	f, ok := c.h.cfg.Engine.(forwarder)
	if !ok {
		return ""
	}
	if err := f.CheckForward(args); err != nil {
		return forwardError(args, err)
	}
	return ""
}

// forwardError is the reply to an ordinary command that has none of a node's.
func forwardError(args [][]byte, err error) string {
	switch {
	case errors.Is(err, engine.ErrUnknownCommand):
		return unknownCommand(args)
	case errors.Is(err, engine.ErrUnknownSubcommand):
		return unknownSubcommand(&row{name: string(args[0])}, args[1])
	}
	return err.Error()
}

// forwarded appends a node's reply as it came. A large one is not copied: it becomes
// the replies to be written.
func (c *client) forwarded(args [][]byte, res *engine.Result) {
	switch {
	case res.Err != nil:
		c.fail(forwardError(args, res.Err))
	case len(res.Raw) <= flushAt:
		c.s.Out = append(c.s.Out, res.Raw...)
	default:
		c.s.Flush()
		if len(c.s.Out) > 0 { // of a session without a connection, or one that is lost
			c.s.Out = append(c.s.Out, res.Raw...)
		} else {
			c.s.Out = res.Raw
		}
		res.Raw = nil
	}
}
