package commands

import "strings"

func aclRows() []row {
	quiet := []string{"noscript", "loading", "stale"}
	return []row{{
		name: "acl", arity: -2, group: "server", since: "6.0.0", cost: "Depends on subcommand.",
		summary: "A container for commands about users, who are set up in the configuration",
		replies: "Depends on the subcommand.",
		example: []example{{"ACL WHOAMI", "\"default\""}},
		subs: []row{{
			name: "acl|cat", arity: -2, flags: quiet, group: "server", since: "6.0.0", cost: "O(1) since the categories and commands are a fixed set.",
			summary: "List the ACL categories or the commands inside a category",
			args:    []arg{{name: "categoryname", typ: "string", optional: true}},
			replies: "Array of categories, or of the category's commands.",
			example: []example{{"ACL CAT pubsub", "1) \"subscribe\"\n2) \"unsubscribe\""}},
			run:     runACLCat,
		}, {
			name: "acl|help", arity: 2, flags: helpFlags, group: "server", since: "6.0.0", cost: "O(1)",
			summary: "Print this help.",
			replies: "Array of lines.",
			example: []example{{"ACL HELP", "1) ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
			run:     runHelp,
		}, {
			name: "acl|list", arity: 2, flags: adminFlags, group: "server", since: "6.0.0", cost: "O(N). Where N is the number of configured users.",
			summary: "List users and their rules. Passwords are shown as #hidden",
			replies: "Array of lines as a configuration has them.",
			example: []example{{"ACL LIST", "1) \"user default on nopass ~* &* +@all\""}},
			run:     runACLList,
		}, {
			name: "acl|users", arity: 2, flags: adminFlags, group: "server", since: "6.0.0", cost: "O(N). Where N is the number of configured users.",
			summary: "List the names of users",
			replies: "Array of names.",
			example: []example{{"ACL USERS", "1) \"default\""}},
			run: func(c *client, _ [][]byte) {
				c.texts(c.acl.names())
			},
		}, {
			name: "acl|whoami", arity: 2, flags: quiet, group: "server", since: "6.0.0", cost: "O(1)",
			summary: "Return the name of the user that the connection acts for",
			replies: "The name.",
			example: []example{{"ACL WHOAMI", "\"default\""}},
			run:     func(c *client, _ [][]byte) { c.text(c.user.Name) },
		}},
	}}
}

// texts answers an array of strings.
func (c *client) texts(all []string) {
	c.array(len(all))
	for _, s := range all {
		c.text(s)
	}
}

func runACLCat(c *client, args [][]byte) {
	if len(args) == 2 {
		c.texts(categories)
		return
	}
	category := strings.ToLower(string(args[2]))
	if len(args) > 3 {
		c.fail("ERR Unknown subcommand or wrong number of arguments for 'CAT'. Try ACL HELP.")
		return
	}
	known := false
	for _, k := range categories {
		known = known || k == category
	}
	if !known {
		c.fail("ERR Unknown category '" + string(cString(args[2], quoted)) + "'")
		return
	}
	var names []string
	for _, r := range c.h.table.rows {
		if len(r.subs) == 0 && r.inCategory("@"+category) {
			names = append(names, r.name)
		}
		for i := range r.subs {
			if r.subs[i].inCategory("@" + category) {
				names = append(names, r.subs[i].name)
			}
		}
	}
	c.texts(names)
}

func runACLList(c *client, _ [][]byte) {
	var lines []string
	for _, name := range c.acl.names() {
		lines = append(lines, c.acl.users[name].String())
	}
	c.texts(lines)
}

// String is the user as a line of configuration, but for the passwords: a hash can
// be tried out against lists of words.
func (u *User) String() string {
	words := []string{"user", u.Name, "off"}
	if u.on {
		words[2] = "on"
	}
	if u.noPass {
		words = append(words, "nopass")
	}
	for range u.passwords {
		words = append(words, "#hidden")
	}
	for i := range u.selectors {
		rules := u.selectors[i].String()
		if i > 0 {
			rules = "(" + rules + ")"
		}
		words = append(words, rules)
	}
	return strings.Join(words, " ")
}
