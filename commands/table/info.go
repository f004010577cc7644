package table

import "github.com/rlproxy/rlproxy/commands/reply"

// Info appends the entry of a command in COMMAND INFO: an array of ten elements.
func Info(w reply.Writer, c *Command) {
	w.Array(10)
	if c.Node != nil {
		nodeInfo(w, c)
		return
	}
	w.Text(c.Name)
	w.Int(int64(c.Arity))
	w.Statuses(c.Flags)
	w.Int(int64(c.Keys.First))
	w.Int(int64(c.Keys.Last))
	w.Int(int64(c.Keys.Step))
	w.Statuses(c.Categories())
	w.Set(len(c.Tips))
	for _, t := range c.Tips {
		w.Text(t)
	}
	keySpecs(w, c)
	w.Set(len(c.Subs))
	for _, sub := range c.Subs {
		Info(w, sub)
	}
}

// keySpecs appends the key specifications of a command, for cluster clients.
func keySpecs(w reply.Writer, c *Command) {
	if c.Keys.First == 0 {
		w.Set(0)
		return
	}
	n := 1
	if c.Keys.Next != nil {
		n++
	}
	w.Set(n)
	w.Map(3)
	w.Text("flags")
	w.Statuses(keyFlags(c))
	w.Text("begin_search")
	w.Map(2)
	w.Field("type", "index")
	w.Text("spec")
	w.Map(1)
	w.Text("index")
	w.Int(int64(c.Keys.First))
	w.Text("find_keys")
	w.Map(2)
	w.Field("type", "range")
	w.Text("spec")
	w.Map(3)
	last := c.Keys.Last
	if last > 0 { // relative to the first key
		last -= c.Keys.First
	}
	w.Text("lastkey")
	w.Int(int64(last))
	w.Text("keystep")
	w.Int(int64(c.Keys.Step))
	w.Text("limit")
	w.Int(0)
	if c.Keys.Next == nil {
		return
	}
	w.Map(4)
	w.Field("notes", "The keys after AND. Marked 'unknown' because the keyword can appear more than once, and as the "+
		"value of an option")
	w.Text("flags")
	w.Statuses(keyFlags(c))
	for _, unknown := range []string{"begin_search", "find_keys"} {
		w.Text(unknown)
		w.Map(2)
		w.Field("type", "unknown")
		w.Text("spec")
		w.Map(0)
	}
}

// keyFlags returns the flags of a key specification, which say what the command does with its keys.
func keyFlags(c *Command) []string {
	if c.Has("write") {
		return []string{"RW", "access", "update"}
	}
	return []string{"RO"}
}
