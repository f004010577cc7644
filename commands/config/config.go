// Package config has the command CONFIG.
package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/internal/glob"
)

// Config says what CONFIG shows and does.
type Config struct {
	// Settings returns the name and value of each directive that matches a glob pattern (see
	// glob.MatchFold); nil: there are no directives. Several sessions may call it at once.
	Settings func(pattern string) [][2]string

	// ResetStat resets what commands have counted.
	ResetStat func()
}

var (
	adminFlags = []string{"admin", "noscript", "loading", "stale"}
	helpFlags  = []string{"loading", "stale"}
)

// Row returns the command CONFIG.
func Row(c Config) table.Row {
	return table.Row{Command: table.Command{
		Name: "config", Arity: -2, Group: "server", Since: "2.0.0", Cost: "Depends on subcommand.",
		Summary:  "A container for server configuration commands",
		Replies:  "Depends on the subcommand.",
		Examples: []table.Example{{Line: "CONFIG GET databases", Reply: "1) \"databases\"\n2) \"1\""}},
	}, Rows: []table.Row{{Command: table.Command{
		Name: "config|get", Arity: -3, Flags: adminFlags, Group: "server", Since: "2.0.0", Cost: "O(N) when N is the number of configuration parameters provided",
		Summary:  "Return parameters that match a glob-like <pattern> and their values.",
		Args:     []table.Arg{{Name: "pattern", Type: "pattern", Multiple: true}},
		Replies:  "Map (flat in RESP2) of names and values; empty if nothing matches.",
		Examples: []table.Example{{Line: "CONFIG GET databases", Reply: "1) \"databases\"\n2) \"1\""}},
	},
		Run: c.get,
	}, {Command: table.Command{
		Name: "config|help", Arity: 2, Flags: helpFlags, Group: "server", Since: "5.0.0", Cost: "O(1)",
		Summary:  "Print this help.",
		Replies:  "Array of lines.",
		Examples: []table.Example{{Line: "CONFIG HELP", Reply: "1) CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
	}}, {Command: table.Command{
		Name: "config|resetstat", Arity: 2, Flags: adminFlags, Group: "server", Since: "2.0.0", Cost: "O(1)",
		Summary:  "Reset what INFO shows in commandstats, latencystats and errorstats, and LATENCY HISTOGRAM.",
		Replies:  "OK.",
		Examples: []table.Example{{Line: "CONFIG RESETSTAT", Reply: "OK"}},
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			c.ResetStat()
			w.OK()
			return ""
		},
	}}}
}

// fixed are settings in CONFIG GET that are not directives. Some clients read databases
// before SELECT; redis-benchmark reads save and appendonly.
var fixed = [][2]string{
	{"appendonly", "no"}, {"databases", "1"}, {"maxmemory-policy", "noeviction"}, {"save", ""},
}

func (c *Config) get(w reply.Writer, args [][]byte) string {
	found := make(map[string][2]string) // by name: as many as there are, however many patterns match
	for _, a := range args[2:] {
		pattern := string(a)
		glob := strings.ContainsAny(pattern, "*?[")
		for _, s := range c.matching(pattern) {
			name := s[0]
			if !glob {
				s[0] = pattern // as in Redis, the name is in the case of the request
			}
			found[name] = s
		}
	}
	w.Map(len(found))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		w.Field(found[name][0], found[name][1])
	}
	return ""
}

// matching returns the settings that match a pattern: the fixed ones, then the directives.
func (c *Config) matching(pattern string) (found [][2]string) {
	for _, s := range fixed {
		if glob.MatchFold(pattern, s[0]) {
			found = append(found, s)
		}
	}
	if c.Settings != nil {
		found = append(found, c.Settings(pattern)...)
	}
	return found
}
