package ratelimit

import (
	"strings"

	"github.com/rlproxy/rlproxy/engine"
)

// find returns the command of that name, in any case, or nil.
func find(name []byte) *Command {
	for _, c := range append(Commands(), Settle(func([]byte) bool { return false })) {
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
	requests, msg := parseAll(c, args)
	if msg != "" {
		return engine.Request{}, msg
	}
	return requests[0], ""
}

// parseAll parses a command that may have several requests.
func parseAll(c *Command, args [][]byte) ([]engine.Request, string) {
	if !c.Fits(len(args)) {
		return nil, c.ArityError()
	}
	var p engine.Pipeline
	if msg := c.Parse(args, &p); msg != "" {
		return nil, msg
	}
	return p.Requests, ""
}

// parseLine parses the words of a command, found by its name.
func parseLine(args [][]byte) (engine.Request, string) {
	return parse(find(args[0]), args)
}
