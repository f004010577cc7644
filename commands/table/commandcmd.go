package table

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/internal/glob"
)

// Row is a command that does not need the session, or a container of such commands.
type Row struct {
	Command
	Rows []Row // subcommands

	// Run appends the reply, or returns an error reply. It is nil for a container, and for the subcommand HELP.
	Run func(w reply.Writer, args [][]byte) (msg string)

	// RunBy replaces Run for a command that needs to know its caller.
	RunBy func(w reply.Writer, args [][]byte, by Caller) (msg string)

	// Barrier is set if the command changes what later commands of a pipeline do.
	Barrier bool
}

// Caller is the user and the client that sent a command.
type Caller struct {
	User *acl.User // the user, with the rules that apply to the session
	Addr string    // the address of the client, as CLIENT LIST shows it
}

// Table is the list of commands that the command COMMAND shows.
type Table interface {
	// Commands returns the commands, sorted by name.
	Commands() []*Command
	// Find returns the command with this name in any case, or a subcommand named as in
	// client|id. It returns nil if there is none.
	Find(name []byte) *Command
	// Forwarded returns the commands that are forwarded to nodes, and are not in Commands.
	Forwarded() []*Command
}

// shown implements COMMAND and its subcommands for a table.
type shown struct{ Table }

// CommandCommand returns the command COMMAND, which shows a table.
func CommandCommand(of Table) Row {
	t := shown{of}
	name := Arg{Name: "command-name", Type: "string", Optional: true, Multiple: true}
	with := func(r Row) Row {
		r.Flags, r.ACL = HelpFlags, []string{"@connection"}
		return r
	}
	return Row{Command: Command{
		Name: "command", Arity: -1, Flags: HelpFlags, ACL: []string{"@connection"}, Group: "server", Since: "2.8.13",
		Complexity: "O(N) where N is the total number of commands",
		Summary:    "Returns details about all commands",
		Replies:    "Array with one element for each command, as in COMMAND INFO.",
		Bare:       true,
	},
		Run: t.infoAll,
		Rows: []Row{with(Row{Command: Command{
			Name: "command|count", Arity: 2, Since: "2.8.13", Complexity: "O(1)",
			Summary: "Returns the total number of commands in this server",
			Replies: "Integer.",
		},
			Run: func(w reply.Writer, _ [][]byte) string {
				w.Int(int64(len(t.all())))
				return ""
			},
		}), with(Row{Command: Command{
			Name: "command|docs", Arity: -2, Since: "7.0.0",
			Complexity: "O(N) where N is the number of commands to look up",
			Summary:    "Returns documentation details about multiple commands",
			Args:       []Arg{name},
			Replies:    "Map (flat in RESP2) of commands and their documentation.",
		},
			Run: t.docs,
		}), with(Row{Command: Command{
			Name: "command|getkeys", Arity: -4, Since: "2.8.13",
			Complexity: "O(N) where N is the number of arguments to the command",
			Summary:    "Returns the keys from a full command",
			Args:       []Arg{{Name: "command", Type: "string"}, {Name: "arg", Type: "string", Multiple: true}},
			Replies:    "Array of keys.",
		},
			Run: t.getKeys,
		}), with(Row{Command: HelpCommand("command", "5.0.0")}), with(Row{Command: Command{
			Name: "command|info", Arity: -2, Since: "2.8.13",
			Complexity: "O(N) where N is the number of commands to look up",
			Summary:    "Returns details about multiple commands",
			Args:       []Arg{name},
			Replies:    "Array with one element for each name, null for an unknown one.",
		},
			Run: t.info,
		}), with(Row{Command: Command{
			Name: "command|list", Arity: -2, Since: "7.0.0", Complexity: "O(N) where N is the total number of commands",
			Summary: "Returns a list of all commands in this server",
			Args: []Arg{{Name: "filterby", Type: "oneof", Token: "FILTERBY", Optional: true, Args: []Arg{
				{Name: "module-name", Type: "string", Token: "MODULE"},
				{Name: "category", Type: "string", Token: "ACLCAT"},
				{Name: "pattern", Type: "pattern", Token: "PATTERN"},
			}}},
			Replies: "Array of names.",
		},
			Run: t.list,
		})},
	}
}

// all returns the commands of the table and those that are forwarded, sorted by name.
func (t shown) all() []*Command {
	all := slices.Concat(t.Commands(), t.Forwarded())
	slices.SortFunc(all, func(a, b *Command) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (t shown) infoAll(w reply.Writer, _ [][]byte) string {
	all := t.all()
	w.Array(len(all))
	for _, c := range all {
		Info(w, c)
	}
	return ""
}

func (t shown) info(w reply.Writer, args [][]byte) string {
	if len(args) == 2 {
		return t.infoAll(w, nil)
	}
	var forwarded map[string]*Command // nil: not needed yet
	w.Array(len(args) - 2)
	for _, name := range args[2:] {
		if w.Closing() {
			break // the client is gone
		}
		c := t.Find(name)
		if c == nil {
			if forwarded == nil {
				forwarded = index(make(map[string]*Command), t.Forwarded())
			}
			c = forwarded[strings.ToLower(string(name))]
		}
		if c != nil {
			Info(w, c)
		} else {
			w.Null()
		}
	}
	return ""
}

// index adds commands and their subcommands to a map by name.
func index(byName map[string]*Command, all []*Command) map[string]*Command {
	for _, c := range all {
		byName[c.Name] = c
		index(byName, c.Subs)
	}
	return byName
}

func (t shown) docs(w reply.Writer, args [][]byte) string {
	all := t.Commands()
	if len(args) > 2 {
		all = nil
		for _, name := range args[2:] {
			if c := t.Find(name); c != nil {
				all = append(all, c)
			}
		}
	}
	w.Map(len(all))
	for _, c := range all {
		if w.Closing() {
			break // the client is gone
		}
		w.Text(c.Name)
		Docs(w, c)
	}
	return ""
}

func (t shown) list(w reply.Writer, args [][]byte) string {
	keep := func(*Command) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !word.Is(args[2], "FILTERBY") {
			return reply.ErrSyntax
		}
		by := string(args[4])
		switch {
		case word.Is(args[3], "MODULE"):
			keep = func(*Command) bool { return false }
		case word.Is(args[3], "ACLCAT"):
			keep = func(c *Command) bool { return c.InCategory("@" + strings.ToLower(by)) }
		case word.Is(args[3], "PATTERN"):
			keep = func(c *Command) bool { return glob.Match(strings.ToLower(by), c.Name) }
		default:
			return reply.ErrSyntax
		}
	}
	var names []string
	for _, c := range t.all() {
		if keep(c) {
			names = append(names, c.Name)
		}
		for _, sub := range c.Subs {
			if len(args) > 2 && keep(sub) {
				names = append(names, sub.Name)
			}
		}
	}
	w.Texts(names)
	return ""
}

func (t shown) getKeys(w reply.Writer, args [][]byte) string {
	keys, msg := t.keysOf(args[2:])
	if msg == "" {
		w.Array(len(keys))
	}
	for _, k := range keys {
		w.Bulk(k)
	}
	return msg
}

// keysOf returns the keys of the command that the words are, or an error reply.
func (t shown) keysOf(words [][]byte) (keys [][]byte, msg string) {
	c := t.Find(words[0])
	if c != nil && len(c.Subs) > 0 && len(words) > 1 {
		c = t.Find(append([]byte(c.Name+"|"), words[1]...))
	}
	switch {
	case c == nil:
		return nil, reply.ErrInvalidCommand
	case c.Keys.First == 0:
		return nil, reply.ErrNoKeys
	case !c.Fits(len(words)):
		return nil, reply.ErrKeyArity
	}
	return c.Keys.Of(words), ""
}
