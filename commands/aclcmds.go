package commands

import (
	"slices"
	"strings"

	"github.com/rlproxy/rlproxy/commands/acl"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

func aclRows() []row {
	return []row{{Command: table.Command{
		Name: "acl", Arity: -2, Group: "server", Since: "6.0.0", Complexity: "Depends on subcommand.",
		Summary: "A container for commands about users, which are defined in the configuration",
	},
		subs: []row{{Command: table.Command{
			Name: "acl|cat", Arity: -2, Flags: table.QuietFlags, Since: "6.0.0",
			Complexity: "O(1) since the categories and commands are a fixed set.",
			Summary:    "Lists the ACL categories or the commands inside a category",
			Args:       []table.Arg{{Name: "categoryname", Type: "string", Optional: true}},
			Replies:    "Array of categories, or of the category's commands.",
		},
			run: runACLCat,
		}, {Command: table.HelpCommand("acl", "6.0.0"),
			run: runHelp,
		}, {Command: table.Command{
			Name: "acl|list", Arity: 2, Flags: table.AdminFlags, Since: "6.0.0",
			Complexity: "O(N). Where N is the number of configured users.",
			Summary:    "Lists users and their rules. Passwords are shown as #hidden",
			Replies:    "Array of lines, as in a configuration.",
		},
			run: runACLList,
		}, {Command: table.Command{
			Name: "acl|users", Arity: 2, Flags: table.AdminFlags, Since: "6.0.0",
			Complexity: "O(N). Where N is the number of configured users.",
			Summary:    "Lists the names of users",
			Replies:    "Array of names.",
		},
			run: func(c *client, _ [][]byte) {
				c.Texts(c.acl.Names())
			},
		}, {Command: table.Command{
			Name: "acl|whoami", Arity: 2, Flags: table.QuietFlags, Since: "6.0.0", Complexity: "O(1)",
			Summary: "Returns the name of the connection's user",
			Replies: "The name.",
		},
			run: func(c *client, _ [][]byte) { c.Text(c.user.Name) },
		}},
	}}
}

func runACLCat(c *client, args [][]byte) {
	if len(args) == 2 {
		c.Texts(acl.Categories())
		return
	}
	category := strings.ToLower(string(args[2]))
	if len(args) > 3 {
		c.Error(reply.WrongSubcommand("acl", args[1]))
		return
	}
	if !slices.Contains(acl.Categories(), category) {
		c.Error("ERR Unknown category '" + string(word.Quote(args[2])) + "'")
		return
	}
	var names []string
	for _, r := range c.h.table.rows {
		if len(r.subs) == 0 && r.InCategory("@"+category) {
			names = append(names, r.Name)
		}
		for i := range r.subs {
			if r.subs[i].InCategory("@" + category) {
				names = append(names, r.subs[i].Name)
			}
		}
	}
	c.Texts(names)
}

func runACLList(c *client, _ [][]byte) {
	var lines []string
	for _, name := range c.acl.Names() {
		lines = append(lines, c.acl.User(name).String())
	}
	c.Texts(lines)
}
