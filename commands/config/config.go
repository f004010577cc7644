// Package config has the command CONFIG.
//
// Reading order: config.go (this file), get.go, set.go.
package config

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
)

// Config configures the command CONFIG.
type Config struct {
	// Settings are the directives; nil: there are none.
	Settings Settings

	// ResetStat resets what commands have counted.
	ResetStat func()
}

// Settings are the directives of the configuration. Several sessions may use them at once.
type Settings interface {
	// Matching returns the name and value of each directive that matches a glob pattern, in
	// any case. Nothing of it is secret.
	Matching(pattern string) [][2]string

	// When returns the name of a directive as the configuration has it, given in any case, and
	// when a changed setting of it takes effect. The name is empty if there is no such directive.
	When(name string) (string, When)

	// Set changes directives that change AtOnce, given by name and value as Matching shows them: all of them, or none
	// if one of them may not have its value. Then it returns that one's name, and why.
	Set(by table.Caller, pairs [][2]string) (name, why string)
}

// When is the time at which a changed setting takes effect.
type When uint8

// A setting changes at the next start, when the configuration is read again, or also by CONFIG SET.
const (
	AtRestart When = iota
	AtReload
	AtOnce
)

// Row returns the command CONFIG.
func Row(c Config) table.Row {
	return table.Row{Command: table.Command{
		Name: "config", Arity: -2, Group: "server", Since: "2.0.0", Complexity: "Depends on subcommand.",
		Summary: "A container for server configuration commands",
	}, Rows: []table.Row{{Command: table.Command{
		Name: "config|get", Arity: -3, Flags: table.AdminFlags, Since: "2.0.0",
		Complexity: "O(N) when N is the number of configuration parameters provided",
		Summary:    "Returns the parameters whose names match a glob pattern, with their values",
		Args:       []table.Arg{{Name: "pattern", Type: "pattern", Multiple: true}},
		Replies:    "Map (flat in RESP2) of names and values; empty if nothing matches.",
	},
		Run: c.get,
	}, {Command: table.HelpCommand("config", "5.0.0")}, {Command: table.Command{
		Name: "config|resetstat", Arity: 2, Flags: table.AdminFlags, Since: "2.0.0", Complexity: "O(1)",
		Summary: "Resets what INFO shows in commandstats, latencystats and errorstats, and LATENCY HISTOGRAM",
		Replies: "OK.",
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			c.ResetStat()
			w.OK()
			return ""
		},
	}, {Command: table.Command{
		Name: "config|rewrite", Arity: 2, Flags: table.AdminFlags, Since: "2.8.0", Complexity: "O(1)",
		Summary: "Not supported: rlproxy does not write to its configuration",
		Replies: "An error.",
	},
		Run: func(reply.Writer, [][]byte) string { return errRewrite },
	}, {Command: table.Command{
		Name: "config|set", Arity: -4, Flags: table.AdminFlags,
		Tips:  []string{"request_policy:all_nodes", "response_policy:all_succeeded"},
		Since: "2.0.0", Complexity: "O(N) when N is the number of configuration parameters provided",
		Summary: "Changes directives of this proxy until its configuration is read again: all of them or none",
		Args: []table.Arg{{Name: "parameter_value", Type: "block", Multiple: true, Args: []table.Arg{
			{Name: "parameter", Type: "string",
				About: "the name of a directive that can change while rlproxy runs, see docs/operations.md"},
			{Name: "value", Type: "string",
				About: "its words as in the configuration; of `fail-policy` and `hot-key`, those of all lines in a " +
					"row"},
		}}},
		Replies: "OK. The new settings apply to later requests, until SIGHUP or a restart. The log says who changed " +
			"what.",
		Examples: []table.Example{
			{Line: "CONFIG SET fail-policy \"closed api:* open\" backend-timeout 250", Reply: "OK"},
			{Line: "CONFIG SET port 1", Reply: "(error) " + errFailed +
				"port') - can't set immutable config: it changes at the next start"},
		},
	},
		RunBy: c.set, Barrier: true,
	}}}
}
