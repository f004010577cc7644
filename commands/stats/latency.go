package stats

import (
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

func latency(s *Stats) table.Row {
	return table.Row{Command: table.Command{
		Name: "latency", Arity: -2, Group: "server", Since: "2.8.13", Complexity: "Depends on subcommand.",
		Summary: "A container for latency diagnostics commands",
	}, Rows: []table.Row{{Command: table.HelpCommand("latency", "2.8.13")}, {
		Command: table.Command{
			Name: "latency|histogram", Arity: -2, Flags: []string{"admin", "noscript", "loading", "stale"},
			Tips:       []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
			Since:      "7.0.0",
			Complexity: "O(N) where N is the number of commands with latency information being retrieved.",
			Summary:    "Returns how long commands took, as cumulative histograms",
			Replies: "Map of commands that were called to maps: calls, and histogram_usec, a map of microseconds to " +
				"the calls that took so long or less.",
			Args: []table.Arg{{
				Name: "command", Type: "string", Optional: true, Multiple: true,
				About: "the name of a command, or of a container for its subcommands; default: all",
			}},
			Examples: []table.Example{{
				Line: "LATENCY HISTOGRAM rl.slide",
				Reply: "1# \"rl.slide\" =>\n   1# \"calls\" => (integer) 3\n   2# \"histogram_usec\" =>\n      1# " +
					"(integer) 128 => (integer) 2\n      2# (integer) 256 => (integer) 3",
			}},
		},
		Run: s.histogram,
	}}}
}

// histogram replies with the histograms of all commands, or of those that are named, each once.
func (s *Stats) histogram(w reply.Writer, args [][]byte) string {
	wanted := make(map[string]bool)
	for _, a := range args[2:] {
		var buf [64]byte
		if name, ok := word.Lower(buf[:0], a); ok {
			wanted[string(name)] = true
		}
	}
	type found struct {
		name string
		took *histogram.Snapshot
	}
	var all []found
	for name, c := range s.commands.All() {
		container, _, _ := strings.Cut(name, "|")
		now := c.counts.Load()
		if now == nil || len(args) > 2 && !wanted[name] && !wanted[container] {
			continue
		}
		if took := now.took.Snapshot(); took.Count > 0 {
			all = append(all, found{name, took})
		}
	}
	w.Map(len(all))
	for _, f := range all {
		w.Text(f.name)
		w.Map(2)
		w.Text("calls")
		w.Int(f.took.Count)
		w.Text("histogram_usec")
		steps := cumulative(f.took)
		w.Map(len(steps))
		for _, s := range steps {
			w.Int(s[0])
			w.Int(s[1])
		}
	}
	return ""
}

// cumulative returns powers of two of microseconds, each with the number of calls that took at most
// that long. It leaves out powers that add no calls.
func cumulative(took *histogram.Snapshot) (steps [][2]int64) {
	before := int64(0)
	for micros := int64(1); before < took.Count; micros *= 2 {
		if n := took.AtMost(time.Duration(micros) * time.Microsecond); n > before {
			steps = append(steps, [2]int64{micros, n})
			before = n
		}
	}
	return steps
}
