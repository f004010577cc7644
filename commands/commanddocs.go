package commands

import (
	"slices"
	"strings"
)

// info appends a row as COMMAND INFO tells it: ten elements.
func (c *client) info(r *row) {
	c.array(10)
	c.text(r.name)
	c.int(int64(r.arity))
	c.statuses(r.flags)
	c.int(int64(r.keys.first))
	c.int(int64(r.keys.last))
	c.int(int64(r.keys.step))
	c.statuses(r.categories())
	c.set(len(r.tips))
	for _, t := range r.tips {
		c.text(t)
	}
	c.keySpecs(r)
	c.set(len(r.subs))
	for i := range r.subs {
		c.info(&r.subs[i])
	}
}

// keySpecs appends where the keys are, in the words that cluster clients read.
func (c *client) keySpecs(r *row) {
	if r.keys.first == 0 {
		c.set(0)
		return
	}
	c.set(1)
	c.dict(3)
	c.text("flags")
	if r.has("write") {
		c.statuses([]string{"RW", "access", "update"})
	} else {
		c.statuses([]string{"RO"})
	}
	c.text("begin_search")
	c.dict(2)
	c.field("type", "index")
	c.text("spec")
	c.dict(1)
	c.text("index")
	c.int(int64(r.keys.first))
	c.text("find_keys")
	c.dict(2)
	c.field("type", "range")
	c.text("spec")
	c.dict(3)
	last := r.keys.last
	if last > 0 { // counted from the first key here
		last -= r.keys.first
	}
	c.text("lastkey")
	c.int(int64(last))
	c.text("keystep")
	c.int(int64(r.keys.step))
	c.text("limit")
	c.int(0)
}

// categories returns the row's ACL categories in Redis's order.
func (r *row) categories() []string {
	var cats []string
	for _, cat := range []string{
		"@read", "@write", "@pubsub", "@admin", "@fast", "@slow", "@dangerous", "@connection", "@transaction", "@ratelimit",
	} {
		if r.inCategory(cat) {
			cats = append(cats, cat)
		}
	}
	return cats
}

func (r *row) inCategory(cat string) bool {
	switch cat {
	case "@read":
		return r.has("readonly")
	case "@write":
		return r.has("write")
	case "@pubsub":
		return r.group == "pubsub"
	case "@ratelimit":
		return r.group == "ratelimit"
	case "@fast":
		return r.has("fast")
	case "@slow":
		return !r.has("fast")
	case "@transaction":
		return r.group == "transactions"
	case "@connection":
		return r.group == "connection" && len(r.subs) == 0 || slices.Contains(r.acl, cat)
	case "@admin", "@dangerous":
		return r.has("admin") || slices.Contains(r.acl, cat)
	}
	return false
}

// docs appends a row as COMMAND DOCS tells it. redis-cli makes its hints of it.
func (c *client) docs(r *row) {
	n := 4
	if len(r.args) > 0 {
		n++
	}
	if len(r.subs) > 0 {
		n++
	}
	c.dict(n)
	c.field("summary", r.summary)
	c.field("since", r.since)
	c.field("group", r.group)
	c.field("complexity", r.cost)
	if len(r.args) > 0 {
		c.text("arguments")
		c.argDocs(r.args)
	}
	if len(r.subs) > 0 {
		c.text("subcommands")
		c.dict(len(r.subs))
		for i := range r.subs {
			c.text(r.subs[i].name)
			c.docs(&r.subs[i])
		}
	}
}

func (c *client) argDocs(args []arg) {
	c.array(len(args))
	for i := range args {
		a := &args[i]
		var flags []string
		if a.optional {
			flags = append(flags, "optional")
		}
		if a.multiple {
			flags = append(flags, "multiple")
		}
		n := 2
		for _, has := range []bool{a.typ == "key", a.token != "", flags != nil, a.args != nil} {
			if has {
				n++
			}
		}
		c.dict(n)
		c.field("name", a.name)
		c.field("type", a.typ)
		if a.typ == "key" {
			c.text("key_spec_index")
			c.int(0)
		}
		if a.token != "" {
			c.field("token", a.token)
		}
		if flags != nil {
			c.text("flags")
			c.statuses(flags)
		}
		if a.args != nil {
			c.text("arguments")
			c.argDocs(a.args)
		}
	}
}

// runHelp lists the subcommands of the command that was sent.
func runHelp(c *client, args [][]byte) {
	r := c.h.table.get(args[0])
	lines := []string{strings.ToUpper(r.name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"}
	if r.run != nil {
		lines = append(lines, "(no subcommand)", "    "+r.summary+".")
	}
	for i := range r.subs {
		s := &r.subs[i]
		_, word, _ := strings.Cut(s.name, "|")
		lines = append(lines, strings.TrimSpace(strings.ToUpper(word)+" "+usage(s.args)), "    "+s.summary)
	}
	c.array(len(lines))
	for _, l := range lines {
		c.status(l)
	}
}

// usage writes arguments as the documentation of Redis does: [optional], a|b,
// repeated [repeated ...].
func usage(args []arg) string {
	words := make([]string, len(args))
	for i := range args {
		words[i] = args[i].usage()
	}
	return strings.Join(words, " ")
}

func (a *arg) usage() string {
	var s string
	switch a.typ {
	case "pure-token":
		s = a.token
	case "block":
		s = usage(a.args)
	case "oneof":
		parts := make([]string, len(a.args))
		for i := range a.args {
			parts[i] = a.args[i].usage()
		}
		s = strings.Join(parts, "|")
	default:
		s = a.name
	}
	if a.token != "" && a.typ != "pure-token" {
		s = a.token + " " + s
	}
	if a.multiple {
		s += " [" + s + " ...]"
	}
	if a.optional {
		s = "[" + s + "]"
	}
	return s
}
