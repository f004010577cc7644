package commands

import (
	"runtime"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"time"
)

func serverRows() []row {
	return []row{{
		name: "info", arity: -1, flags: helpFlags, acl: []string{"@dangerous"},
		tips:  []string{"nondeterministic_output", "request_policy:all_shards", "response_policy:special"},
		group: "server", since: "1.0.0", cost: "O(1)",
		summary: "Tells about the server: all sections, or those named",
		args:    []arg{{name: "section", typ: "string", optional: true, multiple: true, about: "a section's name, `all`, `default` or `everything`"}},
		replies: "Lines of key:value, in sections.",
		example: []example{{"INFO cluster", "# Cluster\ncluster_enabled:0"}},
		run:     runInfo,
	}, {
		name: "time", arity: 1, flags: localFlags, tips: changing, group: "server", since: "2.6.0", cost: "O(1)",
		summary: "Tells this process's time; decisions are made by the nodes' clocks",
		replies: "Array of two strings: seconds since the epoch, and microseconds.",
		example: []example{{"TIME", "1) \"1792000000\"\n2) \"761286\""}},
		run:     runTime,
	}, {
		name: "role", arity: 1, flags: quietFastFlags, acl: []string{"@admin", "@dangerous"}, group: "server", since: "2.8.12", cost: "O(1)",
		summary: "Tells that this is a master without replicas",
		replies: "Array: master, 0, an empty array.",
		example: []example{{"ROLE", "1) \"master\"\n2) (integer) 0\n3) (empty array)"}},
		run: func(c *client, _ [][]byte) {
			c.array(3)
			c.text("master")
			c.int(0)
			c.array(0)
		},
	}, {
		name: "config", arity: -2, group: "server", since: "2.0.0", cost: "Depends on subcommand.",
		summary: "A container for server configuration commands",
		replies: "Depends on the subcommand.",
		example: []example{{"CONFIG GET databases", "1) \"databases\"\n2) \"1\""}},
		subs: []row{{
			name: "config|get", arity: -3, flags: adminFlags, group: "server", since: "2.0.0", cost: "O(N) when N is the number of configuration parameters provided",
			summary: "Return parameters that match a glob-like <pattern> and their values.",
			args:    []arg{{name: "pattern", typ: "pattern", multiple: true}},
			replies: "Map (flat in RESP2) of names and values; empty when nothing matches.",
			example: []example{{"CONFIG GET databases", "1) \"databases\"\n2) \"1\""}},
			run:     runConfigGet,
		}, {
			name: "config|help", arity: 2, flags: helpFlags, group: "server", since: "5.0.0", cost: "O(1)",
			summary: "Print this help.",
			replies: "Array of lines.",
			example: []example{{"CONFIG HELP", "1) CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
			run:     runHelp,
		}},
	}, {
		name: "cluster", arity: -2, flags: []string{"stale"}, group: "cluster", since: "3.0.0", cost: "O(1)",
		summary: "Answers that clients need not know about slots: rlproxy finds the node",
		args:    []arg{{name: "subcommand", typ: "string"}},
		replies: "An error, by which clients learn that this is not a cluster.",
		example: []example{{"CLUSTER SLOTS", "(error) ERR This instance has cluster support disabled"}},
		run:     func(c *client, _ [][]byte) { c.fail(errClusterOff) },
	}}
}

// changing marks commands that answer differently each time.
var changing = []string{"nondeterministic_output"}

var quietFastFlags = []string{"noscript", "loading", "stale", "fast"}

func runTime(c *client, _ [][]byte) {
	now := c.h.cfg.Now()
	c.array(2)
	c.text(strconv.FormatInt(now.Unix(), 10))
	c.text(strconv.Itoa(now.Nanosecond() / 1000))
}

// fixedSettings are answers of CONFIG GET that no directive changes. Clients ask for them: databases
// before SELECT, save and appendonly from redis-benchmark.
var fixedSettings = [][2]string{
	{"appendonly", "no"}, {"databases", "1"}, {"maxmemory-policy", "noeviction"}, {"save", ""},
}

func runConfigGet(c *client, args [][]byte) {
	found := make(map[string]string)
	for _, a := range args[2:] {
		pattern := string(a)
		glob := strings.ContainsAny(pattern, "*?[")
		for _, s := range c.h.settings(pattern) {
			if !glob {
				s[0] = pattern // a name comes back in the case in which it was asked for
			}
			found[s[0]] = s[1]
		}
	}
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	c.dict(len(names))
	for _, name := range names {
		c.field(name, found[name])
	}
}

// settings returns the directives that match a pattern, Config.Settings' last.
func (h *Handler) settings(pattern string) (found [][2]string) {
	for _, s := range fixedSettings {
		if Match(pattern, s[0]) {
			found = append(found, s)
		}
	}
	if h.cfg.Settings != nil {
		found = append(found, h.cfg.Settings(pattern)...)
	}
	return found
}

func runInfo(c *client, args [][]byte) {
	var b strings.Builder
	for _, s := range c.h.sections() {
		if !asked(s.Name, args[1:]) {
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
	c.verbatim(b.String())
}

// asked tells whether INFO's words name the section; without words all are.
func asked(section string, words [][]byte) bool {
	for _, w := range words {
		if fold(w, "ALL") || fold(w, "DEFAULT") || fold(w, "EVERYTHING") || strings.EqualFold(section, string(w)) {
			return true
		}
	}
	return len(words) == 0
}

// sections returns INFO: what clients look for in Redis's, then Config.Info's.
func (h *Handler) sections() []Section {
	now := h.cfg.Now()
	up := now.Sub(h.started)
	h.mu.Lock()
	clients := len(h.clients)
	h.mu.Unlock()
	sections := []Section{
		{"Server", [][2]string{
			{"redis_version", RedisVersion},
			{"redis_mode", "standalone"},
			{"rlproxy_version", h.cfg.Version},
			{"os", runtime.GOOS + " " + runtime.GOARCH},
			{"arch_bits", strconv.Itoa(strconv.IntSize)},
			{"process_id", strconv.Itoa(pid)},
			{"run_id", h.run},
			{"server_time_usec", strconv.FormatInt(now.UnixMicro(), 10)},
			{"goroutines", strconv.Itoa(runtime.NumGoroutine())},
			{"uptime_in_seconds", strconv.FormatInt(int64(up/time.Second), 10)},
			{"uptime_in_days", strconv.FormatInt(int64(up/(24*time.Hour)), 10)},
		}},
		{"Clients", [][2]string{{"connected_clients", strconv.Itoa(clients)}}},
		{"Memory", memory()},
		{"Persistence", [][2]string{{"loading", "0"}}},
		{"Replication", [][2]string{{"role", "master"}, {"connected_slaves", "0"}}},
		{"Cluster", [][2]string{{"cluster_enabled", "0"}}},
	}
	if h.cfg.Info != nil {
		sections = append(sections, h.cfg.Info()...)
	}
	return sections
}

// memory tells what the process holds, without stopping it to count.
func memory() [][2]string {
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
