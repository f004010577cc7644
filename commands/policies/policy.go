package policies

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/policy"
)

// Config configures RL.POLICY.
type Config struct {
	// Catalog has the policies in effect.
	Catalog *policy.Catalog

	// Change changes the stored policies.
	Change Change

	Logger *slog.Logger // logs each change
}

// Change applies change to the stored policies, stores the result and puts it into effect. It
// returns the new version, or an error reply. If change returns the set that it is given,
// nothing is stored. Several sessions may call a Change at once.
type Change func(change func(*policy.Set) (next *policy.Set, msg string)) (version int64, msg string)

var (
	changing = []string{"write", "admin"}
	showing  = []string{"readonly"}
)

// shown is what RL.POLICY GET replies.
var shown = "Map (flat in RESP2): name; algorithm: " + strings.ToLower(ratelimit.Algorithms()) + "; limits, an array " +
	"of maps of limit and window-ms, or of limit, calendar (such as month) and tz; buckets, or refill if the " +
	"algorithm is bucket; strict, 0 or 1; " +
	"shards, 0 if not given; fail, `default` if not given; shadow, 0 or 1; ipv6, 0 if not given; order, an " +
	"array of integers; overrides, " +
	"an array of maps of pattern " +
	"and limits, or of pattern and access, which is `unlimited` " +
	"or `blocked`; source, `configuration` or `runtime`; version, the number of changes by RL.POLICY so far, or 0 if " +
	"the source is the configuration."

var (
	nameArg    = table.Arg{Name: "name", Type: "string", About: "1 to 64 letters, digits, `_`, `.` and `-`"}
	patternArg = table.Arg{Name: "pattern", Type: "string",
		About: "a key, a key prefix followed by `*`, or a network such as `10.0.0.0/8`. It has no other `*`, no `?` " +
			"and no `[`. The override of a key itself wins over those of networks, these win over prefixes, and a " +
			"longer network or prefix over a shorter one"}
)

var orderArg = table.Arg{Name: "places", Type: "string", Token: "ORDER", Optional: true,
	About: "how Envoy's descriptors become keys: the numbers of their values, in the order in which they are joined, " +
		"such as 2,1; without it as they come"}

var ipv6Arg = table.Arg{Name: "bits", Type: "integer", Token: "IPV6", Optional: true,
	About: "keys that are IPv6 addresses count by their network of so many bits, 1 to 128, and IPv4 addresses in " +
		"IPv6 form as IPv4; without it keys count as they are written"}

// Row returns RL.POLICY.
func Row(c Config) table.Row {
	return table.Row{Command: table.Command{
		Name: "rl.policy", Arity: -2, Group: "policies", Since: "0.1.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands about named policies",
	}, Rows: []table.Row{{Command: table.Command{
		Name: "rl.policy|del", Arity: -3, Flags: changing, AllKeys: true, Since: "0.1.0",
		Complexity: "O(N) with N the size of all policies",
		Summary:    "Deletes a policy and its overrides, or one override of it",
		Args:       []table.Arg{nameArg, optional(patternArg)},
		Replies:    "1; 0 if there is no such policy or override.",
		Examples:   []table.Example{{Line: "RL.POLICY DEL api tenant:42", Reply: "(integer) 1"}},
	}, RunBy: c.del, Barrier: true,
	}, {Command: table.Command{
		Name: "rl.policy|get", Arity: 3, Flags: showing, AllKeys: true, Since: "0.1.0",
		Complexity: "O(N) with N the number of the policy's overrides",
		Summary:    "Returns a policy",
		Args:       []table.Arg{nameArg},
		Replies:    shown,
		Examples: []table.Example{{Line: "RL.POLICY GET api",
			Reply: " 1) \"name\"\n 2) \"api\"\n 3) \"algorithm\"\n 4) \"slide\"\n 5) \"limits\"\n 6) 1) 1) " +
				"\"limit\"\n" +
				"       2) (integer) 100\n       3) \"window-ms\"\n       4) (integer) 60000\n 7) \"buckets\"\n 8) " +
				"(integer) 1\n 9) ..."}},
	}, Run: c.get,
	}, {Command: table.HelpCommand("rl.policy", "0.1.0")}, {Command: table.Command{
		Name: "rl.policy|list", Arity: 2, Flags: showing, AllKeys: true, Since: "0.1.0",
		Complexity: "O(N) with N the number of policies and overrides",
		Summary:    "Returns all policies in effect",
		Replies:    "Array of maps as in RL.POLICY GET, sorted by name.",
		Examples:   []table.Example{{Line: "RL.POLICY LIST", Reply: "1)  1) \"name\"\n    2) \"api\"\n    3) ..."}},
	}, Run: c.list,
	}, {Command: table.Command{
		Name: "rl.policy|override", Arity: -5, Flags: changing, AllKeys: true, Since: "0.1.0",
		Complexity: "O(N) with N the size of all policies",
		Summary:    "Gives some keys of a policy other limits",
		Args:       append([]table.Arg{nameArg, patternArg}, ratelimit.OverrideArgs()...),
		Replies: "Map (flat in RESP2): version, the number of changes by RL.POLICY so far; new-windows, an array of " +
			"those windows, in ms or as a word such as month, that begin to count at 0 because these keys did not " +
			"have them before.",
		Examples: []table.Example{
			{Line: "RL.POLICY OVERRIDE api tenant:42 1000 60",
				Reply: "1) \"version\"\n2) (integer) 2\n3) \"new-windows\"\n4) (empty array)"},
			{Line: "RL.POLICY OVERRIDE api scraper:* BLOCKED",
				Reply: "1) \"version\"\n2) (integer) 2\n3) \"new-windows\"\n4) (empty array)"},
		},
	}, RunBy: c.override, Barrier: true,
	}, {Command: table.Command{
		Name: "rl.policy|set", Arity: -6, Flags: changing, AllKeys: true, Since: "0.1.0",
		Complexity: "O(N) with N the size of all policies",
		Summary:    "Adds a policy, or replaces one and keeps its overrides",
		Args:       append(append([]table.Arg{nameArg}, ratelimit.PolicyArgs()...), ipv6Arg, orderArg),
		Replies: "Map (flat in RESP2): version, the number of changes by RL.POLICY so far; new-windows, an array of " +
			"those windows, in ms or as a word such as month, that begin to count at 0 because the policy did not " +
			"have them " +
			"before. These are all windows, also those of its overrides, if it is new or if its algorithm, BUCKETS " +
			"or SHADOW has changed.",
		Examples: []table.Example{{Line: "RL.POLICY SET api SLIDE 100 60",
			Reply: "1) \"version\"\n2) (integer) 1\n3) \"new-windows\"\n4) 1) (integer) 60000"}},
	}, RunBy: c.set, Barrier: true,
	}}}
}

func optional(a table.Arg) table.Arg {
	a.Optional = true
	return a
}

func (c *Config) set(w reply.Writer, args [][]byte, by table.Caller) string {
	name := args[2]
	var old, p *policy.Policy
	version, msg := c.change(name, func(s *policy.Set) (*policy.Set, string) {
		next, msg := s.WithPolicy(args[2:])
		if msg == "" {
			old, p = s.Find(name), next.Find(name)
		}
		return next, msg
	})
	if msg != "" {
		return msg
	}
	c.log("a policy was set", by, version, p.Words())
	c.changed(w, version, newWindows(old, p))
	return ""
}

func (c *Config) override(w reply.Writer, args [][]byte, by table.Caller) string {
	name, pattern := args[2], args[3]
	var was []limit.Window
	var o *policy.Override
	var p *policy.Policy
	version, msg := c.change(name, func(s *policy.Set) (*policy.Set, string) {
		next, msg := s.WithOverride(args[2:])
		if msg == "" {
			was = limitsOf(s.Find(name), string(pattern))
			p = next.Find(name)
			all := p.Overrides
			o = &all[slices.IndexFunc(all, func(o policy.Override) bool { return o.Pattern == string(pattern) })]
		}
		return next, msg
	})
	if msg != "" {
		return msg
	}
	c.log("an override was set", by, version, o.Words(p))
	c.changed(w, version, without(o.Limits, was))
	return ""
}

func (c *Config) del(w reply.Writer, args [][]byte, by table.Caller) string {
	if len(args) > 4 {
		return "ERR wrong number of arguments for 'rl.policy|del' command"
	}
	if msg := policy.CheckNames(args[2:]); msg != "" {
		return msg
	}
	found := false
	version, msg := c.change(args[2], func(s *policy.Set) (next *policy.Set, _ string) {
		if len(args) == 3 {
			next, found = s.Without(args[2])
		} else {
			next, found = s.WithoutOverride(args[2], args[3])
		}
		return next, ""
	})
	switch {
	case msg != "":
		return msg
	case !found:
		w.Int(0)
		return ""
	case len(args) == 3:
		c.log("a policy was deleted", by, version, []string{string(args[2])})
	default:
		c.log("an override was deleted", by, version, []string{string(args[2]), string(args[3])})
	}
	w.Int(1)
	return ""
}

// change changes the stored policies, unless the configuration has a policy with this name.
func (c *Config) change(name []byte, change func(*policy.Set) (*policy.Set, string)) (version int64, msg string) {
	if c.Catalog.Configured(name) != nil {
		return 0, "ERR policy " + word.Literal(name) + " is set in the configuration"
	}
	return c.Change(change)
}

// log logs a change, in the words of a line of the configuration. A long pattern is cut.
func (c *Config) log(what string, by table.Caller, version int64, words []string) {
	for i := range words {
		if len(words[i]) > word.Quoted {
			words[i] = word.Literal([]byte(words[i]))
		} else {
			words[i] = word.InLine(words[i])
		}
	}
	c.Logger.Info(what, "policy", strings.Join(words, " "), "version", version, "user", by.User.Name, "addr", by.Addr)
}

// changed writes the reply to a change.
func (c *Config) changed(w reply.Writer, version int64, windows []int64) {
	w.Map(2)
	w.Text("version")
	w.Int(version)
	w.Text("new-windows")
	w.Array(len(windows))
	for _, length := range windows {
		if period, _ := (limit.Window{Length: length}).Calendar(); period != "" {
			w.Text(period)
		} else {
			w.Int(length)
		}
	}
}

func (c *Config) get(w reply.Writer, args [][]byte) string {
	p, msg := find(c.Catalog, args[2])
	if msg == "" {
		show(w, p)
	}
	return msg
}

func (c *Config) list(w reply.Writer, _ [][]byte) string {
	if err := c.Catalog.WhyUnknown(); err != nil {
		return err.Error()
	}
	all := c.Catalog.InEffect().All()
	w.Array(len(all))
	for _, p := range all {
		if w.Closing() {
			break // the client is gone
		}
		show(w, p)
	}
	return ""
}

// show writes a policy as RL.POLICY GET replies it.
func show(w reply.Writer, p *policy.Policy) {
	w.Map(13)
	w.Field("name", p.Name)
	w.Field("algorithm", strings.ToLower(ratelimit.Algorithm(p.Kind)))
	w.Text("limits")
	showLimits(w, p.Limits)
	number(w, p.Kind.Param(), p.Param)
	number(w, "strict", p.Manner)
	number(w, "shards", int64(p.Shards))
	w.Field("fail", p.Fail.String())
	number(w, "shadow", bit(p.Shadow))
	number(w, "ipv6", int64(p.IPv6))
	w.Text("order")
	w.Array(len(p.Order))
	for _, at := range p.Order {
		w.Int(int64(at + 1))
	}
	w.Text("overrides")
	w.Array(len(p.Overrides))
	for i := range p.Overrides {
		if w.Closing() {
			break // the client is gone
		}
		o := &p.Overrides[i]
		w.Map(2)
		w.Field("pattern", o.Pattern)
		switch o.Verdict {
		case engine.Unlimited:
			w.Field("access", "unlimited")
		case engine.Blocked:
			w.Field("access", "blocked")
		default:
			w.Text("limits")
			showLimits(w, o.Limits)
		}
	}
	source := "runtime"
	if p.Configured {
		source = "configuration"
	}
	w.Field("source", source)
	number(w, "version", p.Version)
}

func showLimits(w reply.Writer, all []limit.Window) {
	w.Array(len(all))
	for _, l := range all {
		w.Map(2)
		number(w, "limit", l.Limit)
		if period, zone := l.Calendar(); period != "" {
			w.Field("calendar", period)
			w.Field("tz", zone)
		} else {
			number(w, "window-ms", l.Length)
		}
	}
}

func number(w reply.Writer, name string, n int64) {
	w.Text(name)
	w.Int(n)
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
