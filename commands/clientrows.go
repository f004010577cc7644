package commands

var (
	quietFlags = []string{"noscript", "loading", "stale"}
	adminFlags = []string{"admin", "noscript", "loading", "stale"}
	helpFlags  = []string{"loading", "stale"}
	connection = []string{"@connection"}
	onOff      = []arg{
		{name: "on", typ: "pure-token", token: "ON"},
		{name: "off", typ: "pure-token", token: "OFF"},
	}
)

func clientRows() []row {
	return []row{{
		name: "client", arity: -2, group: "connection", since: "2.4.0", cost: "Depends on subcommand.",
		summary: "A container for client connection commands",
		replies: "Depends on the subcommand.",
		example: []example{{"CLIENT ID", "(integer) 7"}},
		subs: []row{{
			name: "client|getname", arity: 2, flags: quietFlags, acl: connection, group: "connection", since: "2.6.9", cost: "O(1)",
			summary: "Return the name of the current connection.",
			replies: "The name, or null when there is none.",
			example: []example{{"CLIENT GETNAME", "\"worker-1\""}},
			run:     runClientGetName,
		}, {
			name: "client|help", arity: 2, flags: helpFlags, acl: connection, group: "connection", since: "5.0.0", cost: "O(1)",
			summary: "Print this help.",
			replies: "Array of lines.",
			example: []example{{"CLIENT HELP", "1) CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\n2) ..."}},
			run:     runHelp,
		}, {
			name: "client|id", arity: 2, flags: quietFlags, acl: connection, group: "connection", since: "5.0.0", cost: "O(1)",
			summary: "Return the ID of the current connection.",
			replies: "Integer, never used twice.",
			example: []example{{"CLIENT ID", "(integer) 7"}},
			run:     func(c *client, _ [][]byte) { c.int(c.s.ID) },
		}, {
			name: "client|info", arity: 2, flags: quietFlags, acl: connection, group: "connection", since: "6.2.0", cost: "O(1)",
			summary: "Return information about the current client connection.",
			replies: "One line of key=value fields.",
			example: []example{{"CLIENT INFO", "id=7 addr=127.0.0.1:50188 laddr=127.0.0.1:6380 fd=-1 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 ... cmd=client|info user=default redir=-1 resp=2 lib-name= lib-ver="}},
			run:     runClientInfo,
		}, {
			name: "client|kill", arity: -3, flags: adminFlags, acl: connection, group: "connection", since: "2.4.0", cost: "O(N) where N is the number of client connections",
			summary: "Close connections.",
			args: []arg{{name: "filter", typ: "oneof", args: []arg{
				{name: "ip:port", typ: "string", about: "one connection; an error when there is none"},
				{name: "new-format", typ: "oneof", multiple: true, args: []arg{
					{name: "client-id", typ: "integer", token: "ID"},
					{name: "client-type", typ: "string", token: "TYPE", about: "`NORMAL`, `PUBSUB`, `MASTER` or `REPLICA`"},
					{name: "username", typ: "string", token: "USER"},
					{name: "ip:port", typ: "string", token: "ADDR"},
					{name: "ip:port", typ: "string", token: "LADDR"},
					{name: "yes/no", typ: "string", token: "SKIPME", about: "`YES`, the default, spares one's own connection"},
				}},
			}}},
			replies: "OK for one address, else how many connections were closed.",
			example: []example{{"CLIENT KILL ID 8", "(integer) 1"}},
			run:     runClientKill, barrier: true,
		}, {
			name: "client|list", arity: -2, flags: adminFlags, acl: connection, group: "connection", since: "2.4.0", cost: "O(N) where N is the number of client connections",
			summary: "Return information about client connections.",
			args: []arg{
				{name: "client-type", typ: "string", token: "TYPE", optional: true, about: "`NORMAL`, `PUBSUB`, `MASTER` or `REPLICA`"},
				{name: "client-id", typ: "integer", token: "ID", optional: true, multiple: true},
			},
			replies: "One line of key=value fields for each connection.",
			example: []example{{"CLIENT LIST ID 7", "id=7 addr=127.0.0.1:50188 laddr=127.0.0.1:6380 fd=-1 name= age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 ... cmd=client|list user=default redir=-1 resp=2 lib-name= lib-ver="}},
			run:     runClientList,
		}, {
			name: "client|no-evict", arity: 3, flags: adminFlags, acl: connection, group: "connection", since: "7.0.0", cost: "O(1)",
			summary: "Accepted: rlproxy evicts no client.",
			args:    []arg{{name: "enabled", typ: "oneof", args: onOff}},
			replies: "OK.",
			example: []example{{"CLIENT NO-EVICT ON", "OK"}},
			run: func(c *client, args [][]byte) {
				c.toggle(&c.own.noEvict, args[2])
			},
		}, {
			name: "client|no-touch", arity: 3, flags: quietFlags, acl: connection, group: "connection", since: "7.2.0", cost: "O(1)",
			summary: "Accepted: rlproxy keeps no access times.",
			args:    []arg{{name: "enabled", typ: "oneof", args: onOff}},
			replies: "OK.",
			example: []example{{"CLIENT NO-TOUCH ON", "OK"}},
			run: func(c *client, args [][]byte) {
				c.toggle(&c.own.noTouch, args[2])
			},
		}, {
			name: "client|reply", arity: 3, flags: quietFlags, acl: connection, group: "connection", since: "3.2.0", cost: "O(1)",
			summary: "Control the replies sent to the current connection.",
			args: []arg{{name: "on_off_skip", typ: "oneof", args: append(onOff[:2:2],
				arg{name: "skip", typ: "pure-token", token: "SKIP", about: "no reply to the next command"})}},
			replies: "OK for ON, else nothing.",
			example: []example{{"CLIENT REPLY ON", "OK"}},
			run:     runClientReply, barrier: true,
		}, {
			name: "client|setinfo", arity: 4, flags: quietFlags, acl: connection, group: "connection", since: "7.2.0", cost: "O(1)",
			summary: "Tell which client library is used.",
			args: []arg{{name: "attr", typ: "oneof", args: []arg{
				{name: "libname", typ: "string", token: "LIB-NAME"},
				{name: "libver", typ: "string", token: "LIB-VER"},
			}}},
			replies: "OK.",
			example: []example{{"CLIENT SETINFO LIB-NAME redis-py", "OK"}},
			run:     runClientSetInfo,
		}, {
			name: "client|setname", arity: 3, flags: quietFlags, acl: connection, group: "connection", since: "2.6.9", cost: "O(1)",
			summary: "Assign a name to the current connection.",
			args:    []arg{{name: "connection-name", typ: "string", about: "no spaces or line ends; empty for none"}},
			replies: "OK.",
			example: []example{{"CLIENT SETNAME worker-1", "OK"}},
			run: func(c *client, args [][]byte) {
				if c.setName(args[2]) {
					c.ok()
				}
			},
		}, {
			name: "client|tracking", arity: -3, flags: quietFlags, acl: connection, group: "connection", since: "6.0.0", cost: "O(1)",
			summary: "Accepted in the mode in which nothing is tracked until it is asked for.",
			args: []arg{
				{name: "status", typ: "oneof", args: onOff},
				{name: "optin", typ: "pure-token", token: "OPTIN", optional: true, about: "needed with `ON`"},
			},
			replies: "OK.",
			example: []example{{"CLIENT TRACKING ON OPTIN", "OK"}},
			run:     runClientTracking,
		}},
	}}
}
