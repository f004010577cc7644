package table

import "slices"

// Categories returns the command's ACL categories in Redis's order.
func (c *Command) Categories() []string {
	var cats []string
	for _, cat := range []string{
		"@keyspace", "@read", "@write", "@pubsub", "@admin", "@fast", "@slow", "@dangerous", "@connection",
		"@transaction", "@ratelimit",
	} {
		if c.InCategory(cat) {
			cats = append(cats, cat)
		}
	}
	return cats
}

// InCategory reports whether the command is in an ACL category, such as @read.
func (c *Command) InCategory(cat string) bool {
	if c.Node != nil {
		return slices.Contains(texts(c.Node[6]), cat)
	}
	switch cat {
	case "@read":
		return c.Has("readonly")
	case "@write":
		return c.Has("write")
	case "@pubsub":
		return c.Group == "pubsub"
	case "@ratelimit":
		return c.Group == "ratelimit"
	case "@fast":
		return c.Has("fast")
	case "@slow":
		return !c.Has("fast")
	case "@transaction":
		return c.Group == "transactions"
	case "@keyspace":
		return slices.Contains(c.ACL, cat)
	case "@connection":
		return c.Group == "connection" && len(c.Subs) == 0 || slices.Contains(c.ACL, cat)
	case "@admin", "@dangerous":
		return c.Has("admin") || slices.Contains(c.ACL, cat)
	}
	return false
}
