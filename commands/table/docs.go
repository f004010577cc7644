package table

import "github.com/rlproxy/rlproxy/commands/reply"

// Docs appends the entry of a command in COMMAND DOCS. redis-cli uses it for its hints.
func Docs(w reply.Writer, c *Command) {
	n := 4
	if len(c.Args) > 0 {
		n++
	}
	if len(c.Subs) > 0 {
		n++
	}
	w.Map(n)
	w.Field("summary", c.Summary)
	w.Field("since", c.Since)
	w.Field("group", c.Group)
	w.Field("complexity", c.Complexity)
	if len(c.Args) > 0 {
		w.Text("arguments")
		argDocs(w, c.Args)
	}
	if len(c.Subs) > 0 {
		w.Text("subcommands")
		w.Map(len(c.Subs))
		for _, sub := range c.Subs {
			w.Text(sub.Name)
			Docs(w, sub)
		}
	}
}

func argDocs(w reply.Writer, args []Arg) {
	w.Array(len(args))
	for i := range args {
		a := &args[i]
		var flags []string
		if a.Optional {
			flags = append(flags, "optional")
		}
		if a.Multiple {
			flags = append(flags, "multiple")
		}
		if a.MultipleToken {
			flags = append(flags, "multiple_token")
		}
		n := 2
		for _, has := range []bool{a.Type == "key", a.Token != "", flags != nil, a.Args != nil} {
			if has {
				n++
			}
		}
		w.Map(n)
		w.Field("name", a.Name)
		w.Field("type", a.Type)
		if a.Type == "key" {
			w.Text("key_spec_index")
			w.Int(int64(a.KeySpec))
		}
		if a.Token != "" {
			w.Field("token", a.Token)
		}
		if flags != nil {
			w.Text("flags")
			w.Statuses(flags)
		}
		if a.Args != nil {
			w.Text("arguments")
			argDocs(w, a.Args)
		}
	}
}
