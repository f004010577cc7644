package stats

import (
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

// Rows returns the commands SLOWLOG and LATENCY, which show and reset s.
func Rows(s *Stats) []table.Row { return []table.Row{slowLog(s), latency(s)} }

var logFlags = []string{"admin", "loading", "stale"}

func slowLog(s *Stats) table.Row {
	nodes := []string{"request_policy:all_nodes"}
	return table.Row{Command: table.Command{
		Name: "slowlog", Arity: -2, Group: "server", Since: "2.2.12", Complexity: "Depends on subcommand.",
		Summary: "A container for slow log commands",
	}, Rows: []table.Row{{Command: table.Command{
		Name: "slowlog|get", Arity: -2, Flags: logFlags, Tips: append(nodes[:1:1], "nondeterministic_output"),
		Since: "2.2.12", Complexity: "O(N) where N is the number of entries returned",
		Summary: "Returns the newest entries of the slow log: pipelines and commands that took " +
			"slowlog-log-slower-than microseconds or longer",
		Args: []table.Arg{{Name: "count", Type: "integer", Optional: true,
			About: "the most entries; default 10; -1: all"}},
		Replies: "Array of entries, the newest first. Each is an array: ID, Unix time, microseconds, arguments, " +
			"client address, client name. " +
			"There is one entry for a pipeline, with its first command and, as the last argument, the number of " +
			"other commands that took part.",
		Examples: []table.Example{{
			Line: "SLOWLOG GET 1",
			Reply: "1) 1) (integer) 14\n   2) (integer) 1792000000\n   3) (integer) 10412\n   4) 1) \"RL.SLIDE\"\n   " +
				"   2) \"user:42\"\n      3) \"100\"\n" +
				"      4) \"60\"\n      5) \"... (15 more commands in the pipeline)\"\n   5) \"127.0.0.1:50188\"\n   " +
				"6) \"worker-1\"",
		}},
	},
		Run: s.Slow.get,
	}, {Command: table.HelpCommand("slowlog", "6.2.0")}, {Command: table.Command{
		Name: "slowlog|len", Arity: 2, Flags: logFlags,
		Tips:  append(nodes[:1:1], "response_policy:agg_sum", "nondeterministic_output"),
		Since: "2.2.12", Complexity: "O(1)",
		Summary: "Returns the length of the slow log",
		Replies: "Integer.",
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Int(int64(s.Slow.Len()))
			return ""
		},
	}, {Command: table.Command{
		Name: "slowlog|reset", Arity: 2, Flags: logFlags, Tips: append(nodes[:1:1], "response_policy:all_succeeded"),
		Since: "2.2.12", Complexity: "O(N) where N is the number of entries in the slowlog",
		Summary: "Removes all entries from the slow log",
		Replies: "OK.",
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			s.Slow.Reset()
			w.OK()
			return ""
		},
	}}}
}

func (l *SlowLog) get(w reply.Writer, args [][]byte) string {
	n := int64(10)
	switch {
	case len(args) > 3:
		return reply.WrongSubcommand("slowlog", args[1])
	case len(args) == 3:
		var ok bool
		if n, ok = word.Integer(args[2]); !ok || n < -1 {
			return "ERR count should be greater than or equal to -1"
		}
	}
	entries := l.Newest(n)
	w.Array(len(entries))
	for i := range entries {
		e := &entries[i]
		w.Array(6)
		w.Int(e.ID)
		w.Int(e.At.Unix())
		w.Int(e.Took.Microseconds())
		w.Texts(e.Args)
		w.Text(e.Addr)
		w.Text(e.Name)
	}
	return ""
}
