package commands

import (
	"strings"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/glob"
)

func commandRows() []row {
	name := table.Arg{Name: "command-name", Type: "string", Optional: true, Multiple: true}
	full := []table.Arg{
		{Name: "command", Type: "string"},
		{Name: "arg", Type: "string", Multiple: true},
	}
	with := func(r row) row {
		r.Flags, r.ACL, r.Group = helpFlags, connection, "server"
		return r
	}
	return []row{{Command: table.Command{
		Name: "command", Arity: -1, Flags: helpFlags, ACL: connection, Group: "server", Since: "2.8.13",
		Cost:     "O(N) where N is the total number of commands",
		Summary:  "Return details about all commands",
		Replies:  "Array with one element for each command, as in COMMAND INFO.",
		Examples: []table.Example{{Line: "COMMAND", Reply: "1)  1) \"acl\"\n    2) (integer) -2\n    3) ..."}},
		Bare:     true,
	},
		run: func(c *client, _ [][]byte) { c.infoAll() },
		subs: []row{with(row{Command: table.Command{
			Name: "command|count", Arity: 2, Since: "2.8.13", Cost: "O(1)",
			Summary:  "Return the total number of commands in this server.",
			Replies:  "Integer.",
			Examples: []table.Example{{Line: "COMMAND COUNT", Reply: "(integer) 29"}},
		},
			run: func(c *client, _ [][]byte) { c.Int(int64(len(c.h.table.rows))) },
		}), with(row{Command: table.Command{
			Name: "command|docs", Arity: -2, Since: "7.0.0", Cost: "O(N) where N is the number of commands to look up",
			Summary:  "Return documentation details about multiple commands.",
			Args:     []table.Arg{name},
			Replies:  "Map (flat in RESP2) of commands and their documentation.",
			Examples: []table.Example{{Line: "COMMAND DOCS PING", Reply: "1) \"ping\"\n2)  1) \"summary\"\n    2) \"Replies, to show that the connection works\"\n    3) ..."}},
		},
			run: runCommandDocs,
		}), with(row{Command: table.Command{
			Name: "command|getkeys", Arity: -4, Since: "2.8.13", Cost: "O(N) where N is the number of arguments to the command",
			Summary:  "Return the keys from a full command.",
			Args:     full,
			Replies:  "Array of keys.",
			Examples: []table.Example{{Line: "COMMAND GETKEYS RL.SLIDE user:42 100 60", Reply: "1) \"user:42\""}},
		},
			run: runCommandGetKeys,
		}), with(row{Command: table.Command{
			Name: "command|help", Arity: 2, Since: "5.0.0", Cost: "O(1)",
			Summary:  "Print this help.",
			Replies:  "Array of lines.",
			Examples: []table.Example{{Line: "COMMAND HELP", Reply: "1) COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
		},
			run: runHelp,
		}), with(row{Command: table.Command{
			Name: "command|info", Arity: -2, Since: "2.8.13", Cost: "O(N) where N is the number of commands to look up",
			Summary:  "Return details about multiple commands.",
			Args:     []table.Arg{name},
			Replies:  "Array with one element for each name, null for an unknown one.",
			Examples: []table.Example{{Line: "COMMAND INFO PING", Reply: "1)  1) \"ping\"\n    2) (integer) -1\n    3) 1) fast\n    4) ..."}},
		},
			run: runCommandInfo,
		}), with(row{Command: table.Command{
			Name: "command|list", Arity: -2, Since: "7.0.0", Cost: "O(N) where N is the total number of commands",
			Summary: "Return a list of all commands in this server.",
			Args: []table.Arg{{Name: "filterby", Type: "oneof", Token: "FILTERBY", Optional: true, Args: []table.Arg{
				{Name: "module-name", Type: "string", Token: "MODULE"},
				{Name: "category", Type: "string", Token: "ACLCAT"},
				{Name: "pattern", Type: "pattern", Token: "PATTERN"},
			}}},
			Replies:  "Array of names.",
			Examples: []table.Example{{Line: "COMMAND LIST FILTERBY PATTERN rl.s*", Reply: "1) \"rl.slide\""}},
		},
			run: runCommandList,
		})},
	}}
}

func (c *client) infoAll() {
	c.Array(len(c.h.table.rows))
	for _, r := range c.h.table.rows {
		table.Info(c.Writer, &r.Command)
	}
}

// lookup returns the row of a command, or of a subcommand named as in client|id.
func (c *client) lookup(name []byte) *row {
	return c.h.table.get(name)
}

func runCommandInfo(c *client, args [][]byte) {
	if len(args) == 2 {
		c.infoAll()
		return
	}
	c.Array(len(args) - 2)
	for _, name := range args[2:] {
		if c.s.Closing() {
			return // the client is gone
		}
		if r := c.lookup(name); r != nil {
			table.Info(c.Writer, &r.Command)
		} else {
			c.Null()
		}
	}
}

func runCommandDocs(c *client, args [][]byte) {
	rows := c.h.table.rows
	if len(args) > 2 {
		rows = nil
		for _, name := range args[2:] {
			if r := c.lookup(name); r != nil {
				rows = append(rows, r)
			}
		}
	}
	c.Map(len(rows))
	for _, r := range rows {
		if c.s.Closing() {
			return // the client is gone
		}
		c.Text(r.Name)
		table.Docs(c.Writer, &r.Command)
	}
}

func runCommandList(c *client, args [][]byte) {
	keep := func(*row) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !word.Is(args[2], "FILTERBY") {
			c.Error(reply.ErrSyntax)
			return
		}
		w := string(args[4])
		switch {
		case word.Is(args[3], "MODULE"):
			keep = func(*row) bool { return false }
		case word.Is(args[3], "ACLCAT"):
			keep = func(r *row) bool { return r.InCategory("@" + strings.ToLower(w)) }
		case word.Is(args[3], "PATTERN"):
			keep = func(r *row) bool { return glob.MatchFold(w, r.Name) }
		default:
			c.Error(reply.ErrSyntax)
			return
		}
	}
	var names []string
	for _, r := range c.h.table.rows {
		if keep(r) {
			names = append(names, r.Name)
		}
		for i := range r.subs {
			if len(args) > 2 && keep(&r.subs[i]) {
				names = append(names, r.subs[i].Name)
			}
		}
	}
	c.Texts(names)
}

func runCommandGetKeys(c *client, args [][]byte) {
	words := args[2:]
	r := c.lookup(words[0])
	if r != nil && len(r.subs) > 0 && len(words) > 1 {
		r = c.h.table.sub(r, words[1])
	}
	switch {
	case r == nil:
		c.Error(reply.ErrInvalidCommand)
		return
	case r.Keys.First == 0:
		c.Error(reply.ErrNoKeys)
		return
	case !r.Fits(len(words)):
		c.Error(reply.ErrKeyArity)
		return
	}
	keys := r.Keys.Of(words)
	c.Array(len(keys))
	for _, k := range keys {
		c.Bulk(k)
	}
}

// runHelp lists the subcommands of the command in args.
func runHelp(c *client, args [][]byte) {
	table.Help(c.Writer, &c.h.table.get(args[0]).Command)
}
