package commands

import "github.com/rlproxy/rlproxy/commands/table"

var (
	connection = []string{"@connection"}
	onOff      = []table.Arg{
		{Name: "on", Type: "pure-token", Token: "ON"},
		{Name: "off", Type: "pure-token", Token: "OFF"},
	}
)

func clientRows() []row {
	return []row{{Command: table.Command{
		Name: "client", Arity: -2, Group: "connection", Since: "2.4.0", Complexity: "Depends on subcommand.",
		Summary: "A container for client connection commands",
	},
		subs: []row{{Command: table.Command{
			Name: "client|getname", Arity: 2, Flags: table.QuietFlags, ACL: connection,
			Since: "2.6.9", Complexity: "O(1)",
			Summary: "Returns the name of the current connection",
			Replies: "The name, or null if there is none.",
		},
			run: runClientGetName,
		}, {Command: table.HelpCommand("client", "5.0.0"),
			run: runHelp,
		}, {Command: table.Command{
			Name: "client|id", Arity: 2, Flags: table.QuietFlags, ACL: connection, Since: "5.0.0", Complexity: "O(1)",
			Summary: "Returns the ID of the current connection",
			Replies: "Integer. IDs are never reused.",
		},
			run: func(c *client, _ [][]byte) { c.Int(c.s.ID) },
		}, {Command: table.Command{
			Name: "client|info", Arity: 2, Flags: table.QuietFlags, ACL: connection, Since: "6.2.0", Complexity: "O(1)",
			Summary: "Returns information about the current client connection",
			Replies: "One line of key=value fields.",
		},
			run: runClientInfo,
		}, {Command: table.Command{
			Name: "client|kill", Arity: -3, Flags: table.AdminFlags, ACL: connection,
			Since: "2.4.0", Complexity: "O(N) where N is the number of client connections",
			Summary: "Closes connections",
			Args: []table.Arg{{Name: "filter", Type: "oneof", Args: []table.Arg{
				{Name: "ip:port", Type: "string", About: "closes one connection; an error if there is none"},
				{Name: "new-format", Type: "oneof", Multiple: true, Args: []table.Arg{
					{Name: "client-id", Type: "integer", Token: "ID"},
					{Name: "client-type", Type: "string", Token: "TYPE",
						About: "`NORMAL`, `PUBSUB`, `MASTER` or `REPLICA`"},
					{Name: "username", Type: "string", Token: "USER"},
					{Name: "ip:port", Type: "string", Token: "ADDR"},
					{Name: "ip:port", Type: "string", Token: "LADDR"},
					{Name: "yes/no", Type: "string", Token: "SKIPME",
						About: "`YES`, the default, spares the calling connection"},
				}},
			}}},
			Replies: "OK for the form with one address, else the number of connections closed.",
		},
			run: runClientKill, barrier: true,
		}, {Command: table.Command{
			Name: "client|list", Arity: -2, Flags: table.AdminFlags, ACL: connection,
			Since: "2.4.0", Complexity: "O(N) where N is the number of client connections",
			Summary: "Returns information about client connections",
			Args: []table.Arg{
				{Name: "filter", Type: "oneof", Optional: true, Args: []table.Arg{
					{Name: "client-type", Type: "string", Token: "TYPE",
						About: "`NORMAL`, `PUBSUB`, `MASTER` or `REPLICA`"},
					{Name: "ids", Type: "block", Token: "ID",
						Args: []table.Arg{{Name: "client-id", Type: "integer", Multiple: true}}},
				}},
			},
			Replies: "One line of key=value fields for each connection.",
		},
			run: runClientList,
		}, {Command: table.Command{
			Name: "client|no-evict", Arity: 3, Flags: table.AdminFlags, ACL: connection,
			Since: "7.0.0", Complexity: "O(1)",
			Summary: "Accepted without effect: maxmemory-clients closes only the clients that need more memory " +
				"themselves",
			Args:    []table.Arg{{Name: "enabled", Type: "oneof", Args: onOff}},
			Replies: "OK.",
		},
			run: func(c *client, args [][]byte) {
				c.toggle(&c.own.NoEvict, args[2])
			},
		}, {Command: table.Command{
			Name: "client|no-touch", Arity: 3, Flags: table.QuietFlags, ACL: connection,
			Since: "7.2.0", Complexity: "O(1)",
			Summary: "Accepted without effect: rlproxy keeps no access times",
			Args:    []table.Arg{{Name: "enabled", Type: "oneof", Args: onOff}},
			Replies: "OK.",
		},
			run: func(c *client, args [][]byte) {
				c.toggle(&c.own.NoTouch, args[2])
			},
		}, {Command: table.Command{
			Name: "client|reply", Arity: 3, Flags: table.QuietFlags, ACL: connection,
			Since: "3.2.0", Complexity: "O(1)",
			Summary: "Controls the replies sent to the current connection",
			Args: []table.Arg{{Name: "on_off_skip", Type: "oneof", Args: append(onOff[:2:2],
				table.Arg{Name: "skip", Type: "pure-token", Token: "SKIP", About: "no reply to the next command"})}},
			Replies: "OK for ON, else none.",
		},
			run: runClientReply, barrier: true,
		}, {Command: table.Command{
			Name: "client|setinfo", Arity: 4, Flags: table.QuietFlags, ACL: connection,
			Since: "7.2.0", Complexity: "O(1)",
			Summary: "Sets the name or version of the client library",
			Args: []table.Arg{{Name: "attr", Type: "oneof", Args: []table.Arg{
				{Name: "libname", Type: "string", Token: "LIB-NAME"},
				{Name: "libver", Type: "string", Token: "LIB-VER"},
			}}},
			Replies: "OK.",
		},
			run: runClientSetInfo,
		}, {Command: table.Command{
			Name: "client|setname", Arity: 3, Flags: table.QuietFlags, ACL: connection,
			Since: "2.6.9", Complexity: "O(1)",
			Summary: "Assigns a name to the current connection",
			Args: []table.Arg{{Name: "connection-name", Type: "string",
				About: "without spaces and line ends; empty for none"}},
			Replies: "OK.",
		},
			run: runClientSetName,
		}, {Command: table.Command{
			Name: "client|tracking", Arity: -3, Flags: table.QuietFlags, ACL: connection,
			Since: "6.0.0", Complexity: "O(1)",
			Summary: "Accepted without effect, in the mode in which nothing is tracked unless requested",
			Args: []table.Arg{
				{Name: "status", Type: "oneof", Args: onOff},
				{Name: "optin", Type: "pure-token", Token: "OPTIN", Optional: true, About: "required with `ON`"},
			},
			Replies: "OK.",
		},
			run: runClientTracking,
		}, {Command: table.Command{
			Name: "client|unblock", Arity: -3, Flags: table.AdminFlags, ACL: connection,
			Since: "5.0.0", Complexity: "O(N) where N is the number of requests that wait",
			Summary: "Ends the wait of a command with BLOCK of another connection",
			Args: []table.Arg{
				{Name: "client-id", Type: "integer"},
				{Name: "unblock-type", Type: "oneof", Optional: true, Args: []table.Arg{
					{Name: "timeout", Type: "pure-token", Token: "TIMEOUT", About: "the default: it gets a denial"},
					{Name: "error", Type: "pure-token", Token: "ERROR", About: "it gets the error UNBLOCKED"},
				}},
			},
			Replies: "1 if a command of that connection waited, else 0.",
		},
			run: runClientUnblock, barrier: true,
		}},
	}}
}
