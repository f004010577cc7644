package commands

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/ratelimit"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
)

// row is a command of the table. A command either is for the engine, and has parse and reply,
// or runs in the session, and has run.
type row struct {
	table.Command
	subs []row

	// parse appends a command's requests to the pipeline. It returns an error reply, or "".
	parse func(args [][]byte, p *engine.Pipeline) string
	// reply appends the reply to the requests that parse made.
	reply func(dst []byte, proto int, results []engine.Result) []byte
	// count returns the integer that reply writes, for a command whose arguments are all
	// keys and which may be answered in pieces; else nil.
	count func(results []engine.Result) (int64, error)
	// run runs the command and appends its reply.
	run func(c *client, args [][]byte)

	// barrier is set if the command changes how the session handles later commands. It runs
	// at once, after all commands before it are answered. Other commands that run in the
	// session wait for the next flush.
	barrier bool
	// early is set if the command may be sent before a login (Redis's flag no_auth).
	early bool
	// direct is set if the command runs inside MULTI instead of being queued.
	direct bool
	// subscribed is set if a RESP2 client with subscriptions may send the command.
	subscribed bool
	// loud is set if the command replies with messages, which CLIENT REPLY does not suppress.
	loud bool
}

// registry is the command table.
type registry struct {
	rows   []*row          // commands, sorted by name
	byName map[string]*row // commands and subcommands by name, in lower case
}

// newRegistry builds the table. The table is not a variable because some rows have functions
// that read it.
func newRegistry() *registry {
	t := &registry{byName: make(map[string]*row)}
	for _, family := range [][]row{
		rateLimitRows(), connectionRows(), clientRows(), serverRows(), aclRows(),
		transactionRows(), subscribeRows(), {plainRow(table.CommandCommand(t))},
	} {
		for i := range family {
			t.add(&family[i])
		}
	}
	slices.SortFunc(t.rows, func(a, b *row) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// rateLimitRows returns the commands of package ratelimit, RL.HOTKEYS and RL.NODES.
func rateLimitRows() []row {
	rows := []row{hotKeysRow(), nodesRow()}
	for _, c := range ratelimit.Commands() {
		rows = append(rows, row{Command: c.Command, parse: c.Parse, reply: c.Reply, count: c.Count})
	}
	return rows
}

// plainRow returns the row of a command that needs no session.
func plainRow(r table.Row) row {
	w := row{Command: r.Command}
	for _, sub := range r.Rows {
		s := plainRow(sub)
		if s.run == nil {
			s.run = runHelp
		}
		w.subs = append(w.subs, s)
	}
	if r.Run != nil {
		w.run = func(c *client, args [][]byte) {
			if msg := r.Run(c.Writer, args); msg != "" {
				c.Error(msg)
			}
		}
	}
	return w
}

// runHelp lists the subcommands of the command in args.
func runHelp(c *client, args [][]byte) {
	table.Help(c.Writer, c.h.table.Find(args[0]))
}

func (t *registry) add(r *row) {
	t.rows = append(t.rows, r)
	t.byName[r.Name] = r
	for i := range r.subs {
		sub := &r.subs[i]
		r.Subs = append(r.Subs, &sub.Command)
		t.byName[sub.Name] = sub
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

// sub returns the row of a subcommand of r, or nil.
func (t *registry) sub(r *row, name []byte) *row {
	var buf [64]byte
	low, ok := word.Lower(append(append(buf[:0], r.Name...), '|'), name)
	if !ok {
		return nil
	}
	return t.byName[string(low)]
}
