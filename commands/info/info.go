// Package info has commands by which clients learn about the server, and how INFO is written.
package info

import (
	"os"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

// Section is one section of INFO.
type Section struct {
	Name   string // as in "# Name"
	Fields [][2]string
}

// Command is INFO.
var Command = table.Command{
	Name: "info", Arity: -1, Flags: table.HelpFlags, ACL: []string{"@dangerous"},
	Tips:  []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
	Group: "server", Since: "1.0.0", Complexity: "O(1)",
	Summary: "Returns information about the server: all sections, or the given ones",
	Args: []table.Arg{{Name: "section", Type: "string", Optional: true, Multiple: true,
		About: "the name of a section, or `default`, `all` or `everything`. The default has all sections but " +
			"commandstats and latencystats"}},
	Replies: "Lines of key:value, in sections.",
}

// Rows returns the commands whose replies need nothing but a clock.
func Rows(now func() time.Time) []table.Row {
	return []table.Row{{Command: table.Command{
		Name: "time", Arity: 1, Flags: []string{"loading", "stale", "fast"}, Tips: []string{"nondeterministic_output"},
		Group: "server", Since: "2.6.0", Complexity: "O(1)",
		Summary: "Returns the time of this process. Decisions use the clocks of the nodes",
		Replies: "Array of two strings: seconds since the epoch, and microseconds.",
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			at := now()
			w.Texts([]string{strconv.FormatInt(at.Unix(), 10), strconv.Itoa(at.Nanosecond() / 1000)})
			return ""
		},
	}, {Command: table.Command{
		Name: "role", Arity: 1, Flags: []string{"noscript", "loading", "stale", "fast"},
		ACL: []string{"@admin", "@dangerous"}, Group: "server", Since: "2.8.12", Complexity: "O(1)",
		Summary: "Reports a master without replicas",
		Replies: "Array: master, 0, an empty array.",
	},
		Run: func(w reply.Writer, _ [][]byte) string {
			w.Array(3)
			w.Text("master")
			w.Int(0)
			w.Array(0)
			return ""
		},
	}, {Command: table.Command{
		Name: "cluster", Arity: -2, Flags: []string{"stale"}, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Summary: "Replies that this is not a cluster: rlproxy finds the nodes for its clients",
		Args:    []table.Arg{{Name: "subcommand", Type: "string"}},
		Replies: "An error, from which clients learn that this is not a cluster.",
	},
		Run: func(reply.Writer, [][]byte) string { return reply.ErrClusterOff },
	}}
}

// Write replies with the sections that the words after INFO select.
func Write(w reply.Writer, all []Section, words [][]byte) {
	var b strings.Builder
	for _, s := range all {
		if !selected(s.Name, words) {
			continue
		}
		if b.Len() > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString("# " + s.Name + "\r\n")
		for _, f := range s.Fields {
			b.WriteString(f[0] + ":" + f[1] + "\r\n")
		}
	}
	w.Verbatim(b.String())
}

// selected reports whether the words after INFO select a section. As in Redis, the default are
// all sections but those with a line for each command.
func selected(section string, words [][]byte) bool {
	byDefault := section != "Commandstats" && section != "Latencystats"
	for _, w := range words {
		if byDefault && word.Is(w, "DEFAULT") || word.Is(w, "ALL") || word.Is(w, "EVERYTHING") ||
			strings.EqualFold(section, string(w)) {
			return true
		}
	}
	return byDefault && len(words) == 0
}

// pid is the process ID.
var pid = os.Getpid()

// Server returns the section about the process, which begins with who it is.
func Server(who [][2]string, started, now time.Time) Section {
	up := now.Sub(started)
	return Section{"Server", append(who,
		[2]string{"redis_mode", "standalone"},
		[2]string{"os", runtime.GOOS + " " + runtime.GOARCH},
		[2]string{"arch_bits", strconv.Itoa(strconv.IntSize)},
		[2]string{"process_id", strconv.Itoa(pid)},
		[2]string{"server_time_usec", strconv.FormatInt(now.UnixMicro(), 10)},
		[2]string{"goroutines", strconv.Itoa(runtime.NumGoroutine())},
		[2]string{"uptime_in_seconds", strconv.FormatInt(int64(up/time.Second), 10)},
		[2]string{"uptime_in_days", strconv.FormatInt(int64(up/(24*time.Hour)), 10)},
	)}
}

// Memory returns the section about the memory of the process. It does not stop the world.
func Memory() Section {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(samples)
	return Section{"Memory", [][2]string{
		{"used_memory", strconv.FormatUint(samples[0].Value.Uint64(), 10)},
		{"used_memory_rss", strconv.FormatUint(samples[1].Value.Uint64(), 10)},
	}}
}
