package stats

import (
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// doctor is the reply to LATENCY DOCTOR. Redis's advice is to turn its monitor of events on,
// which rlproxy does not have.
const doctor = "rlproxy keeps no samples of latency events. LATENCY HISTOGRAM and INFO latencystats show how long commands take, " +
	"and SLOWLOG GET shows those that took slowlog-log-slower-than microseconds or longer.\n"

func latency(s *Stats) table.Row {
	event := table.Arg{Name: "event", Type: "string"}
	sub := func(name string, arity int, about, replies string, args ...table.Arg) table.Command {
		return table.Command{
			Name: "latency|" + name, Arity: arity, Flags: []string{"admin", "noscript", "loading", "stale"}, Args: args,
			Tips:  []string{"nondeterministic_output", "request_policy:all_nodes", "response_policy:special"},
			Group: "server", Since: "2.8.13", Complexity: "O(1)", Summary: about, Replies: replies,
		}
	}
	histograms := sub("histogram", -2, "Returns how long commands took, as cumulative histograms",
		"Map of commands that were called to maps: calls, and histogram_usec, a map of microseconds to the calls that took so long or less.",
		table.Arg{Name: "command", Type: "string", Optional: true, Multiple: true, About: "the name of a command, or of a container for its subcommands; default: all"})
	histograms.Since, histograms.Complexity = "7.0.0", "O(N) where N is the number of commands with latency information being retrieved."
	histograms.Examples = []table.Example{{
		Line:  "LATENCY HISTOGRAM rl.slide",
		Reply: "1# \"rl.slide\" =>\n   1# \"calls\" => (integer) 3\n   2# \"histogram_usec\" =>\n      1# (integer) 128 => (integer) 2\n      2# (integer) 256 => (integer) 3",
	}}
	reset := sub("reset", -2, "Accepted without effect: rlproxy keeps no samples of events. CONFIG RESETSTAT resets the histograms", "Integer: 0.",
		table.Arg{Name: "event", Type: "string", Optional: true, Multiple: true})
	reset.Tips = []string{"request_policy:all_nodes", "response_policy:all_succeeded"}
	return table.Row{Command: table.Command{
		Name: "latency", Arity: -2, Group: "server", Since: "2.8.13", Complexity: "Depends on subcommand.",
		Summary: "A container for latency diagnostics commands",
	}, Rows: []table.Row{{
		Command: sub("doctor", 2, "Returns where to find how long commands take", "A text."),
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Verbatim(doctor)
			return ""
		},
	}, {
		Command: sub("graph", 3, "Replies that there are no samples: rlproxy keeps none of events", "An error.", event),
		Run: func(_ reply.Writer, args [][]byte) string {
			return "ERR No samples available for event '" + string(word.Quote(args[2])) + "'"
		},
	}, {Command: table.HelpCommand("latency", "server", "2.8.13")}, {Command: histograms, Run: s.histogram}, {
		Command: sub("history", 3, "Replies that there are no samples: rlproxy keeps none of events", "An empty array.", event),
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Array(0)
			return ""
		},
	}, {
		Command: sub("latest", 2, "Replies that there are no samples: rlproxy keeps none of events", "An empty array."),
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Array(0)
			return ""
		},
	}, {
		Command: reset,
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Int(0)
			return ""
		},
	}}}
}

// histogram replies with the histograms of all commands, or of those that are named, each
// once.
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
	for name, c := range s.commands.all() {
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
