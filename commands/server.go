package commands

import (
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

func serverRows() []row {
	return []row{{Command: table.Command{
		Name: "info", Arity: -1, Flags: table.HelpFlags, ACL: []string{"@dangerous"},
		Tips:  []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Returns information about the server: all sections, or the given ones",
		Args: []table.Arg{{Name: "section", Type: "string", Optional: true, Multiple: true,
			About: "the name of a section, or `default`, `all` or `everything`. The default has all sections but " +
				"commandstats and latencystats"}},
		Replies: "Lines of key:value, in sections.",
	},
		run: runInfo, barrier: true,
	}, {Command: table.Command{
		Name: "time", Arity: 1, Flags: localFlags, Tips: changing, Group: "server", Since: "2.6.0", Complexity: "O(1)",
		Summary: "Returns the time of this process. Decisions use the clocks of the nodes",
		Replies: "Array of two strings: seconds since the epoch, and microseconds.",
	},
		run: runTime,
	}, {Command: table.Command{
		Name: "role", Arity: 1, Flags: quietFastFlags, ACL: []string{"@admin", "@dangerous"}, Group: "server",
		Since: "2.8.12", Complexity: "O(1)",
		Summary: "Reports a master without replicas",
		Replies: "Array: master, 0, an empty array.",
	},
		run: func(c *client, _ [][]byte) {
			c.Array(3)
			c.Text("master")
			c.Int(0)
			c.Array(0)
		},
	}, {Command: table.Command{
		Name: "dbsize", Arity: 1, Flags: []string{"readonly", "fast"}, ACL: []string{"@keyspace"}, AllKeys: true,
		Group: "server", Since: "1.0.0", Complexity: "O(1)",
		Tips: []string{"request_policy:all_shards", "response_policy:agg_sum"},
		Summary: "Returns how many keys have state in this process. With backends it is forwarded, and the nodes' " +
			"numbers of keys are added up",
		Replies: "Integer.",
	},
		run: runDBSize, barrier: true, embedded: true,
	}, {Command: table.Command{
		Name: "module", Arity: -2, Group: "server", Since: "4.0.0", Complexity: "Depends on subcommand.",
		Summary: "A container for module commands. With backends it is forwarded",
	},
		embedded: true,
		subs: []row{{Command: table.Command{
			Name: "module|list", Arity: 2, Flags: []string{"admin", "noscript"},
			Tips:  []string{"nondeterministic_output_order"},
			Since: "4.0.0", Complexity: "O(N) where N is the number of loaded modules.",
			Summary: "Returns a list of loaded modules: rlproxy has none. With backends it is forwarded, if " +
				"passthrough-admin is yes",
			Replies: "An empty array.",
		},
			run: func(c *client, _ [][]byte) { c.Array(0) },
		}},
	}, {Command: table.Command{
		Name: "cluster", Arity: -2, Flags: []string{"stale"}, Group: "cluster", Since: "3.0.0", Complexity: "O(1)",
		Summary: "Replies that this is not a cluster: rlproxy finds the nodes for its clients",
		Args:    []table.Arg{{Name: "subcommand", Type: "string"}},
		Replies: "An error, from which clients learn that this is not a cluster.",
	},
		run: func(c *client, _ [][]byte) { c.Error(reply.ErrClusterOff) },
	}}
}

// changing holds the tip of commands whose reply differs each time.
var changing = []string{"nondeterministic_output"}

var quietFastFlags = []string{"noscript", "loading", "stale", "fast"}

// keys returns how many keys have state in this process, and false if nodes have it.
func (h *Handler) keys() (int64, bool) {
	for _, s := range h.cfg.Engine.Stats() {
		if s.Name == "keys" {
			return s.Value, true
		}
	}
	return 0, false
}

func runDBSize(c *client, _ [][]byte) {
	n, _ := c.h.keys()
	c.Int(n)
}

func runTime(c *client, _ [][]byte) {
	now := c.h.cfg.Now()
	c.Array(2)
	c.Text(strconv.FormatInt(now.Unix(), 10))
	c.Text(strconv.Itoa(now.Nanosecond() / 1000))
}

func runInfo(c *client, args [][]byte) {
	var b strings.Builder
	for _, s := range c.h.sections() {
		if !selected(s.Name, args[1:]) {
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
	c.Verbatim(b.String())
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

// sections returns the sections of INFO: those of Redis that clients read, then Config.Info.
func (h *Handler) sections() []Section {
	now := h.cfg.Now()
	up := now.Sub(h.started)
	sections := []Section{
		{"Server", [][2]string{
			{"redis_version", RedisVersion},
			{"redis_mode", "standalone"},
			{"rlproxy_version", Version},
			{"os", runtime.GOOS + " " + runtime.GOARCH},
			{"arch_bits", strconv.Itoa(strconv.IntSize)},
			{"process_id", strconv.Itoa(pid)},
			{"run_id", h.run},
			{"server_time_usec", strconv.FormatInt(now.UnixMicro(), 10)},
			{"goroutines", strconv.Itoa(runtime.NumGoroutine())},
			{"uptime_in_seconds", strconv.FormatInt(int64(up/time.Second), 10)},
			{"uptime_in_days", strconv.FormatInt(int64(up/(24*time.Hour)), 10)},
		}},
		{"Clients", [][2]string{{"connected_clients", strconv.Itoa(h.clients.Len())}, {"blocked_clients", "0"}}},
		{"Memory", processMemory()},
		{"Persistence", [][2]string{{"loading", "0"}}},
		{"Replication", [][2]string{{"role", "master"}, {"connected_slaves", "0"}}},
		{"Commandstats", h.stats.Commandstats()},
		{"Errorstats", h.stats.Errorstats()},
		{"Latencystats", h.stats.Latencystats()},
		{"Cluster", [][2]string{{"cluster_enabled", "0"}}},
	}
	if n, ok := h.keys(); ok { // nodes have an INFO of their own
		s := Section{Name: "Keyspace"}
		if all := strconv.FormatInt(n, 10); n > 0 { // each key expires; the average is not kept
			s.Fields = [][2]string{{"db0", "keys=" + all + ",expires=" + all + ",avg_ttl=0"}}
		}
		sections = append(sections, s)
	}
	if h.cfg.Info != nil {
		sections = append(sections, h.cfg.Info()...)
	}
	return sections
}

// processMemory returns the memory of the process. It does not stop the world.
func processMemory() [][2]string {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/total:bytes"},
	}
	metrics.Read(samples)
	return [][2]string{
		{"used_memory", strconv.FormatUint(samples[0].Value.Uint64(), 10)},
		{"used_memory_rss", strconv.FormatUint(samples[1].Value.Uint64(), 10)},
	}
}
