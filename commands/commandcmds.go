package commands

import "strings"

func commandRows() []row {
	name := arg{name: "command-name", typ: "string", optional: true, multiple: true}
	full := []arg{
		{name: "command", typ: "string"},
		{name: "arg", typ: "string", multiple: true},
	}
	sub := row{flags: helpFlags, acl: connection, group: "server"}
	with := func(r row) row {
		r.flags, r.acl, r.group = sub.flags, sub.acl, sub.group
		return r
	}
	return []row{{
		name: "command", arity: -1, flags: helpFlags, acl: connection, group: "server", since: "2.8.13",
		cost:    "O(N) where N is the total number of commands",
		summary: "Return details about all commands",
		replies: "Array with one element for each command, as COMMAND INFO gives it.",
		example: []example{{"COMMAND", "1)  1) \"acl\"\n    2) (integer) -2\n    3) ..."}},
		run:     func(c *client, _ [][]byte) { c.infoAll() },
		subs: []row{with(row{
			name: "command|count", arity: 2, since: "2.8.13", cost: "O(1)",
			summary: "Return the total number of commands in this server.",
			replies: "Integer.",
			example: []example{{"COMMAND COUNT", "(integer) 29"}},
			run:     func(c *client, _ [][]byte) { c.int(int64(len(c.h.table.rows))) },
		}), with(row{
			name: "command|docs", arity: -2, since: "7.0.0", cost: "O(N) where N is the number of commands to look up",
			summary: "Return documentation details about multiple commands.",
			args:    []arg{name},
			replies: "Map (flat in RESP2) of commands and their documentation.",
			example: []example{{"COMMAND DOCS PING", "1) \"ping\"\n2)  1) \"summary\"\n    2) \"Answers, to show that the connection works\"\n    3) ..."}},
			run:     runCommandDocs,
		}), with(row{
			name: "command|getkeys", arity: -4, since: "2.8.13", cost: "O(N) where N is the number of arguments to the command",
			summary: "Return the keys from a full command.",
			args:    full,
			replies: "Array of keys.",
			example: []example{{"COMMAND GETKEYS RL.SLIDE user:42 100 60", "1) \"user:42\""}},
			run:     runCommandGetKeys,
		}), with(row{
			name: "command|help", arity: 2, since: "5.0.0", cost: "O(1)",
			summary: "Print this help.",
			replies: "Array of lines.",
			example: []example{{"COMMAND HELP", "1) COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
			run:     runHelp,
		}), with(row{
			name: "command|info", arity: -2, since: "2.8.13", cost: "O(N) where N is the number of commands to look up",
			summary: "Return details about multiple commands.",
			args:    []arg{name},
			replies: "Array with one element for each name, null for an unknown one.",
			example: []example{{"COMMAND INFO PING", "1)  1) \"ping\"\n    2) (integer) -1\n    3) 1) fast\n    4) ..."}},
			run:     runCommandInfo,
		}), with(row{
			name: "command|list", arity: -2, since: "7.0.0", cost: "O(N) where N is the total number of commands",
			summary: "Return a list of all commands in this server.",
			args: []arg{{name: "filterby", typ: "oneof", token: "FILTERBY", optional: true, args: []arg{
				{name: "module-name", typ: "string", token: "MODULE"},
				{name: "category", typ: "string", token: "ACLCAT"},
				{name: "pattern", typ: "pattern", token: "PATTERN"},
			}}},
			replies: "Array of names.",
			example: []example{{"COMMAND LIST FILTERBY PATTERN rl.s*", "1) \"rl.slide\""}},
			run:     runCommandList,
		})},
	}}
}

func (c *client) infoAll() {
	c.array(len(c.h.table.rows))
	for _, r := range c.h.table.rows {
		c.info(r)
	}
}

// lookup finds a command, or a subcommand named as in client|id.
func (c *client) lookup(name []byte) *row {
	return c.h.table.get(name)
}

func runCommandInfo(c *client, args [][]byte) {
	if len(args) == 2 {
		c.infoAll()
		return
	}
	c.array(len(args) - 2)
	for _, name := range args[2:] {
		if r := c.lookup(name); r != nil {
			c.info(r)
		} else {
			c.null()
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
	c.dict(len(rows))
	for _, r := range rows {
		c.text(r.name)
		c.docs(r)
	}
}

func runCommandList(c *client, args [][]byte) {
	keep := func(*row) bool { return true }
	if len(args) > 2 {
		if len(args) != 5 || !fold(args[2], "FILTERBY") {
			c.fail(errSyntax)
			return
		}
		word := string(args[4])
		switch {
		case fold(args[3], "MODULE"):
			keep = func(*row) bool { return false }
		case fold(args[3], "ACLCAT"):
			keep = func(r *row) bool { return r.inCategory("@" + strings.ToLower(word)) }
		case fold(args[3], "PATTERN"):
			keep = func(r *row) bool { return Match(word, r.name) }
		default:
			c.fail(errSyntax)
			return
		}
	}
	var names []string
	for _, r := range c.h.table.rows {
		if keep(r) {
			names = append(names, r.name)
		}
		for i := range r.subs {
			if len(args) > 2 && keep(&r.subs[i]) {
				names = append(names, r.subs[i].name)
			}
		}
	}
	c.array(len(names))
	for _, n := range names {
		c.text(n)
	}
}

func runCommandGetKeys(c *client, args [][]byte) {
	words := args[2:]
	r := c.lookup(words[0])
	if r != nil && len(r.subs) > 0 && len(words) > 1 {
		r = c.h.table.sub(r, words[1])
	}
	switch {
	case r == nil:
		c.fail(errInvalidCommand)
		return
	case r.keys.first == 0:
		c.fail(errNoKeys)
		return
	case !r.fits(len(words)):
		c.fail(errKeyArity)
		return
	}
	keys := r.keys.of(words)
	c.array(len(keys))
	for _, k := range keys {
		c.bulk(k)
	}
}

// of returns the keys of a command.
func (k keys) of(args [][]byte) [][]byte {
	if k.first == 0 {
		return nil
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	var found [][]byte
	for i := k.first; i <= last; i += k.step {
		found = append(found, args[i])
	}
	return found
}
