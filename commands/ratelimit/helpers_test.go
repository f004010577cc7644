package ratelimit

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

// split splits a line into words. Words may be quoted as in Go.
func split(t testing.TB, line string) [][]byte {
	var args [][]byte
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word := line
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			require.NoError(t, err, line)
			word, line = q, line[len(q):]
			text, err := strconv.Unquote(word)
			require.NoError(t, err)
			args = append(args, []byte(text))
			continue
		}
		if i := strings.IndexByte(line, ' '); i >= 0 {
			word = line[:i]
		}
		line = line[len(word):]
		args = append(args, []byte(word))
	}
	return args
}
