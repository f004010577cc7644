package commands

import (
	"strconv"

	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/commands/table"
)

func serverRows() []row {
	return []row{{Command: info.Command,
		run: runInfo, barrier: true,
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
	}}
}

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

func runInfo(c *client, args [][]byte) {
	info.Write(c.Writer, c.h.sections(), args[1:])
}

// sections returns the sections of INFO: those of Redis that clients read, then Config.Info.
func (h *Handler) sections() []info.Section {
	sections := []info.Section{
		info.Server([][2]string{{"redis_version", RedisVersion}, {"rlproxy_version", Version}, {"run_id", h.run}},
			h.started, h.cfg.Now()),
		{Name: "Clients", Fields: append([][2]string{
			{"connected_clients", strconv.Itoa(h.clients.Len())},
			{"blocked_clients", strconv.Itoa(h.cfg.Waiting.Len())},
		}, h.clients.Memory()...)},
		info.Memory(),
		{Name: "Persistence", Fields: [][2]string{{"loading", "0"}}},
		{Name: "Replication", Fields: [][2]string{{"role", "master"}, {"connected_slaves", "0"}}},
		{Name: "Commandstats", Fields: h.stats.Commandstats()},
		{Name: "Errorstats", Fields: h.stats.Errorstats()},
		{Name: "Latencystats", Fields: h.stats.Latencystats()},
		{Name: "Cluster", Fields: [][2]string{{"cluster_enabled", "0"}}},
	}
	if n, ok := h.keys(); ok { // nodes have an INFO of their own
		s := info.Section{Name: "Keyspace"}
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
