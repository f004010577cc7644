package config

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

// Errors of CONFIG SET, with the texts of Redis.
const (
	errUnknown   = "ERR Unknown option or number of arguments for CONFIG SET - '" // followed by the name
	errFailed    = "ERR CONFIG SET failed (possibly related to argument '"        // followed by the name
	errImmutable = "can't set immutable config"                                   // followed by when it changes
	errRewrite   = "ERR CONFIG REWRITE is not supported: rlproxy does not write to its configuration. Change the " +
		"file and send SIGHUP"
)

// maxValue is the most bytes of a value.
const maxValue = 64 << 10

// set checks the names in order, as Redis does, and then has all values set or none.
func (c *Config) set(w reply.Writer, args [][]byte, by table.Caller) string {
	if len(args)%2 != 0 {
		return reply.ErrSyntax
	}
	var pairs [][2]string
	for pair := range slices.Chunk(args[2:], 2) {
		given := string(word.Quote(pair[0]))
		name, when := c.when(string(pair[0]))
		switch {
		case name == "":
			return errUnknown + given + "'"
		case when == AtRestart:
			return failed(given, errImmutable+": it changes at the next start")
		case when == AtReload:
			return failed(given, errImmutable+": it changes when the configuration is read again, at SIGHUP")
		case slices.ContainsFunc(pairs, func(other [2]string) bool { return other[0] == name }):
			return failed(given, "duplicate parameter")
		case len(pair[1]) > maxValue:
			return failed(name, "argument must have at most 65536 bytes")
		}
		pairs = append(pairs, [2]string{name, string(pair[1])})
	}
	if name, why := c.Settings.Set(by, pairs); name != "" {
		return failed(name, why)
	}
	w.OK()
	return ""
}

// when returns the name of a directive or of a fixed setting, and when it changes.
func (c *Config) when(name string) (string, When) {
	for _, s := range fixed {
		if strings.EqualFold(name, s[0]) {
			return s[0], AtRestart
		}
	}
	if c.Settings == nil {
		return "", AtRestart
	}
	return c.Settings.When(name)
}

func failed(name, why string) string { return errFailed + name + "') - " + why }
