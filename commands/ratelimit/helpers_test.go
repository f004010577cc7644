package ratelimit

import (
	"strings"

	"github.com/rlproxy/rlproxy/engine"
)

// find returns the command of that name, in any case, or nil.
func find(name []byte) *Command {
	for _, c := range Commands() {
		if strings.EqualFold(string(name), c.Name) {
			return &c
		}
	}
	return nil
}

// parse checks the arity of a command and parses it, as a session does.
func parse(c *Command, args [][]byte) (engine.Request, string) {
	if !c.Fits(len(args)) {
		return engine.Request{}, c.ArityError()
	}
	var p engine.Pipeline
	if msg := c.Parse(args, &p); msg != "" {
		return engine.Request{}, msg
	}
	return p.Requests[0], ""
}

// parseLine parses the words of a command, found by its name.
func parseLine(args [][]byte) (engine.Request, string) {
	return parse(find(args[0]), args)
}
