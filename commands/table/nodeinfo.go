package table

import "github.com/rlproxy/rlproxy/commands/reply"

// What a node's COMMAND says comes as RESP2, in arrays. It is written with the types of the client's protocol.

// nodeInfo appends the elements of an entry of a command that is forwarded.
func nodeInfo(w reply.Writer, c *Command) {
	w.Text(c.Name)
	number(w, c.Node[1])
	w.Statuses(texts(c.Node[2]))
	for _, n := range c.Node[3:6] {
		number(w, n)
	}
	w.Statuses(texts(c.Node[6]))
	tips := texts(c.Node[7])
	w.Set(len(tips))
	for _, t := range tips {
		w.Text(t)
	}
	specs, _ := c.Node[8].([]any)
	w.Set(len(specs))
	for _, s := range specs {
		nodeSpec(w, s)
	}
	w.Set(len(c.Subs))
	for _, sub := range c.Subs {
		Info(w, sub)
	}
}

// nodeSpec appends a key specification or a part of it: a map whose values are texts, numbers and maps, and a set of
// flags.
func nodeSpec(w reply.Writer, v any) {
	pairs, _ := v.([]any)
	w.Map(len(pairs) / 2)
	for i := 0; i+1 < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		w.Text(key)
		switch value := pairs[i+1].(type) {
		case string:
			w.Text(value)
		case []any:
			if key == "flags" {
				w.Statuses(texts(value))
			} else {
				nodeSpec(w, value)
			}
		default:
			number(w, value)
		}
	}
}

func number(w reply.Writer, v any) {
	n, _ := v.(int64)
	w.Int(n)
}

func texts(v any) (all []string) {
	list, _ := v.([]any)
	for _, v := range list {
		if s, ok := v.(string); ok {
			all = append(all, s)
		}
	}
	return all
}
