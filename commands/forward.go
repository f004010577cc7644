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
	// Describe tells what users' rules need to know of a command.
	Describe(args [][]byte) (engine.Ordinary, error)
}

// notAllowed returns the error of an ordinary command that the user's rules refuse,
// or an empty one. What a script does, and what a command does to keys that it does
// not name, a node would allow to anybody, since it knows only this proxy: the one
// is for users who may do everything, the other for those who may use every key.
func (c *client) notAllowed(args [][]byte) string {
	f, ok := c.h.cfg.Engine.(forwarder)
	if !ok {
		return unknownCommand(args)
	}
	o, err := f.Describe(args)
	if err != nil {
		return forwardError(args, err)
	}
	in := func(category string) bool { return o.Categories[category] }
	if o.Categories["@scripting"] {
		return noPermission(o.Name, false)
	}
	near := false
	for i := range c.user.selectors {
		s := &c.user.selectors[i]
		switch {
		case !s.mayRun(o.Name, in):
		case s.allKeys || o.All && s.mayEach(o.Uses):
			return ""
		default:
			near = true
		}
	}
	return noPermission(o.Name, near)
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
