package commands

import (
	"maps"
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/config"
	"github.com/rlproxy/rlproxy/commands/hotkeys"
	"github.com/rlproxy/rlproxy/commands/info"
	"github.com/rlproxy/rlproxy/commands/keys"
	"github.com/rlproxy/rlproxy/commands/nodes"
	"github.com/rlproxy/rlproxy/commands/policies"
	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/stats"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/forward"
	"github.com/rlproxy/rlproxy/policy"
)

// row is a command of the table. A command either is for the engine, and has parse and reply,
// or runs in the session, and has run.
type row struct {
	table.Command
	subs []row

	under  *row                // the row of the command, if this is a subcommand; else nil
	counts *stats.CommandStats // what is counted of the command; nil: nothing is

	// parse appends a command's requests to the pipeline. It returns an error reply, or "".
	parse func(args [][]byte, p *engine.Pipeline) string
	// reply appends the reply to the requests that parse made.
	reply func(dst []byte, proto int, requests []engine.Request, results []engine.Result) []byte
	// mergeCount returns the integer that reply writes, for a command that may be answered in
	// pieces, each of which begins with the first words; else nil.
	mergeCount func(results []engine.Result) (int64, error)
	// nothing returns the error reply in place of the count 0 of such a command, or "".
	nothing   func(requests []engine.Request) string
	keepWords int // number of these words
	// tied reports whether the command ties leases to the connection; nil if it neither acquires, renews nor
	// releases leases.
	tied func(args [][]byte) bool
	// run runs the command and appends its reply.
	run func(c *client, args [][]byte)

	// barrier is set if the command changes how the session handles later commands, or shows what
	// the decisions before it have done. It runs at once, after all commands before it are answered,
	// and before those after it. Other commands that run in the session wait for the next flush.
	barrier bool
	// early is set if the command may be sent before a login (Redis's flag no_auth).
	early bool
	// direct is set if the command runs inside MULTI instead of being queued.
	direct bool
	// subscribed is set if a RESP2 client with subscriptions may send the command.
	subscribed bool
	// alone is the error reply where other commands are forwarded; empty: the command works there, too.
	alone string
	// embedded is set if the command is answered here only while this process has the state.
	embedded bool
	// loud is set if the command replies with messages, which CLIENT REPLY does not suppress.
	loud bool
}

// registry is the command table.
type registry struct {
	rows   []*row          // commands, sorted by name
	byName map[string]*row // commands and subcommands by name, in lower case
	stats  *stats.Stats    // what is counted of the commands

	forward Forwarder // nil: no command is forwarded
}

// newRegistry builds the table of a handler with that configuration, of which it uses only
// what rows run without a session.
func newRegistry(cfg *Config) *registry {
	t := &registry{byName: make(map[string]*row), stats: stats.New(), forward: cfg.Forward}
	plain := append(stats.Rows(t.stats), table.CommandCommand(t), table.HelpAll(t),
		policies.Row(policies.Config{Catalog: cfg.Policies, Change: cfg.ChangePolicies, Logger: cfg.Logger}),
		config.Row(config.Config{Settings: cfg.Settings, ResetStat: t.stats.Reset}),
		nodes.Row(cfg.Engine), hotkeys.Row(hotkeys.Config{Observer: cfg.Observer, FleetKeys: cfg.FleetKeys}))
	plain = append(plain, keys.Rows(keys.Config{Keys: cfg.Keys, Engine: cfg.Engine})...)
	plain = append(plain, info.Rows(cfg.Now)...)
	for _, family := range [][]row{
		rateLimitRows(cfg.Policies), connectionRows(), clientRows(), serverRows(), aclRows(),
		transactionRows(), subscribeRows(), plainRows(plain),
	} {
		for i := range family {
			t.add(&family[i])
		}
	}
	slices.SortFunc(t.rows, func(a, b *row) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// rateLimitRows returns the commands of package ratelimit, and those that apply policies.
func rateLimitRows(catalog *policy.Catalog) (rows []row) {
	for _, c := range append(ratelimit.Commands(), policies.Check(catalog), policies.Hold(catalog),
		policies.Settle(catalog)) {
		rows = append(rows, row{Command: c.Command, parse: c.Parse, reply: c.Reply, mergeCount: c.MergeCount,
			nothing: c.Nothing, keepWords: c.KeepWords, tied: c.Tied})
	}
	return rows
}

// plainRows returns the rows of commands that need no session.
func plainRows(plain []table.Row) (rows []row) {
	for _, p := range plain {
		r := row{Command: p.Command, subs: plainRows(p.Rows), barrier: p.Barrier}
		run := p.RunBy
		if p.Run != nil {
			run = func(w reply.Writer, args [][]byte, _ table.Caller) string { return p.Run(w, args) }
		}
		switch {
		case run != nil:
			r.run = func(c *client, args [][]byte) {
				by := table.Caller{User: c.user, Addr: clients.Addr(c.s.Remote)}
				if msg := run(c.Writer, args, by); msg != "" {
					c.Error(msg)
				}
			}
		case len(p.Rows) == 0:
			r.run = runHelp
		}
		rows = append(rows, r)
	}
	return rows
}

// runHelp lists the subcommands of the command in args.
func runHelp(c *client, args [][]byte) {
	table.Help(c.Writer, c.h.table.Find(args[0]))
}

// dropEmbedded removes the commands that nodes answer if they have the state.
func (t *registry) dropEmbedded() {
	t.rows = slices.DeleteFunc(t.rows, func(r *row) bool { return r.embedded })
	maps.DeleteFunc(t.byName, func(name string, _ *row) bool {
		command, _, _ := strings.Cut(name, "|")
		return !slices.ContainsFunc(t.rows, func(r *row) bool { return r.Name == command })
	})
}

func (t *registry) add(r *row) {
	t.rows = append(t.rows, r)
	t.byName[r.Name] = r
	r.counts = t.stats.Command(r.Name)
	for i := range r.subs {
		sub := &r.subs[i]
		sub.Group = r.Group
		r.Subs = append(r.Subs, &sub.Command)
		sub.under = r
		t.byName[sub.Name] = sub
		sub.counts = t.stats.Command(sub.Name)
	}
}

// get returns the row of a name in any case, or nil. It does not allocate.
func (t *registry) get(name []byte) *row {
	var buf [32]byte
	low, ok := word.Lower(buf[:0], name)
	if !ok {
		return nil
	}
	return t.byName[string(low)]
}

// unknown returns the error reply to a command that is neither in the table nor forwarded. If it looks like one of
// rlproxy's, the nearest of those follows the text that clients match on.
func (t *registry) unknown(args [][]byte) string {
	msg := reply.UnknownCommand(args)
	if name := args[0]; len(name) > 2 && word.Is(name[:2], "RL") {
		nearest := table.Nearest(t, string(name))
		msg += "(the nearest is " + strings.ToUpper(nearest.Name) + "; RL.HELP lists all)"
	}
	return msg
}

// Find implements table.Table.
func (t *registry) Find(name []byte) *table.Command {
	if r := t.get(name); r != nil {
		return &r.Command
	}
	return nil
}

// Commands implements table.Table.
func (t *registry) Commands() []*table.Command {
	all := make([]*table.Command, len(t.rows))
	for i, r := range t.rows {
		all[i] = &r.Command
	}
	return all
}

// Forwarded implements table.Table. It leaves out the commands of this table.
func (t *registry) Forwarded() (all []*table.Command) {
	if t.forward == nil {
		return nil
	}
	for _, e := range t.forward.Commands(new(forward.Pipeline)) {
		if t.byName[e.Name] == nil {
			all = append(all, ofNode(e))
		}
	}
	return all
}

// ofNode describes a command that is forwarded.
func ofNode(e forward.NodeCommand) *table.Command {
	c := &table.Command{Name: e.Name, Node: e.Fields}
	for _, sub := range e.Subs {
		c.Subs = append(c.Subs, ofNode(sub))
	}
	return c
}

// asksNode reports whether a subcommand of this table is about a command that is not in it, so that a
// node has to answer.
func (t *registry) asksNode(sub *row, args [][]byte) bool {
	return len(args) > 2 && sub.Name == "command|getkeys" && t.get(args[2]) == nil
}

// sub returns the row of a subcommand of r, or nil.
func (t *registry) sub(r *row, name []byte) *row {
	var buf [64]byte
	low, ok := word.Lower(append(append(buf[:0], r.Name...), '|'), name)
	if !ok {
		return nil
	}
	return t.byName[string(low)]
}
