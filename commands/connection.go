package commands

import (
	"github.com/rlproxy/rlproxy/commands/clients"
	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
)

// Redis's flags of connection commands.
var (
	loginFlags = []string{"noscript", "loading", "stale", "fast", "no_auth", "allow_busy"}
	localFlags = []string{"loading", "stale", "fast"}
)

func connectionRows() []row {
	return []row{{Command: table.Command{
		Name: "hello", Arity: -1, Flags: loginFlags, Group: "connection", Since: "6.0.0", Complexity: "O(1)",
		Summary: "Switches the protocol, logs in and names the connection",
		Args: []table.Arg{{Name: "arguments", Type: "block", Optional: true, Args: []table.Arg{
			{Name: "protover", Type: "integer", About: "2 or 3; unchanged if not given"},
			{Name: "username_password", Type: "block", Token: "AUTH", Optional: true, Args: []table.Arg{
				{Name: "username", Type: "string", About: "`default`, or a configured user"},
				{Name: "password", Type: "string"},
			}},
			{Name: "clientname", Type: "string", Token: "SETNAME", Optional: true},
		}}},
		Replies: "Map (flat in RESP2): server, version, proto, id, mode, role, modules.",
	},
		run: runHello, barrier: true, early: true,
	}, {Command: table.Command{
		Name: "auth", Arity: -2, Flags: loginFlags, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Logs in",
		Args: []table.Arg{
			{Name: "username", Type: "string", Optional: true, About: "`default` if not given"},
			{Name: "password", Type: "string"},
		},
		Replies: "OK, or the error WRONGPASS.",
	},
		run: runAuth, barrier: true, early: true,
	}, {Command: table.Command{
		Name: "ping", Arity: -1, Flags: []string{"fast"},
		Tips: []string{"request_policy:all_shards", "response_policy:all_succeeded"}, Group: "connection",
		Since: "1.0.0", Complexity: "O(1)",
		Summary: "Replies, to show that the connection works",
		Args:    []table.Arg{{Name: "message", Type: "string", Optional: true}},
		Replies: "PONG, or the message.",
	},
		run: runPing, subscribed: true,
	}, {Command: table.Command{
		Name: "echo", Arity: 2, Flags: localFlags, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Replies with the message",
		Args:    []table.Arg{{Name: "message", Type: "string"}},
		Replies: "The message.",
	},
		run: func(c *client, args [][]byte) { c.Bulk(args[1]) },
	}, {Command: table.Command{
		Name: "select", Arity: 2, Flags: localFlags, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Selects a database. The only one is 0: the backend's URL selects the nodes' database",
		Args:    []table.Arg{{Name: "index", Type: "integer", About: "0"}},
		Replies: "OK, or the error.",
	},
		run: runSelect,
	}, {Command: table.Command{
		Name: "quit", Arity: -1, Flags: loginFlags, Group: "connection", Since: "1.0.0", Complexity: "O(1)",
		Summary: "Closes the connection once earlier commands are answered",
		Replies: "OK.",
	},
		run: runQuit, barrier: true, early: true, direct: true, subscribed: true,
	}, {Command: table.Command{
		Name: "reset", Arity: 1, Flags: loginFlags, Group: "connection", Since: "6.2.0", Complexity: "O(1)",
		Summary: "Resets the connection to the state of a new one, and releases its leases of RL.ACQUIRE with CONN",
		Replies: "RESET.",
	},
		run: runReset, barrier: true, early: true, direct: true, subscribed: true,
	}}
}

func runHello(c *client, args [][]byte) {
	proto := int64(c.s.Proto)
	next := 1
	if len(args) > 1 {
		var ok bool
		if proto, ok = word.Integer(args[1]); !ok {
			c.Error(reply.ErrProtoInteger)
			return
		}
		if proto != 2 && proto != 3 {
			c.Error(reply.ErrNoProto)
			return
		}
		next = 2
	}
	for next < len(args) {
		option, more := args[next], len(args)-next-1
		switch {
		case word.Is(option, "AUTH") && more >= 2:
			if !c.login(args[next+1], args[next+2]) {
				c.Error(reply.ErrWrongPass)
				return
			}
			next += 3
		case word.Is(option, "SETNAME") && more >= 1:
			if msg := c.own.SetName(args[next+1]); msg != "" {
				c.Error(msg)
				return
			}
			next += 2
		default:
			c.Error("ERR Syntax error in HELLO option '" + string(word.Quote(option)) + "'")
			return
		}
	}
	if c.user == nil {
		c.Error(reply.ErrNoAuthHello)
		return
	}
	c.s.Proto = int(proto)
	c.Map(7)
	c.Field("server", "redis")
	c.Field("version", RedisVersion)
	c.Text("proto")
	c.Int(proto)
	c.Text("id")
	c.Int(c.s.ID)
	c.Field("mode", "standalone")
	c.Field("role", "master")
	c.Text("modules")
	c.Array(0)
}

func runPing(c *client, args [][]byte) {
	switch {
	case len(args) > 2:
		c.Error("ERR wrong number of arguments for 'ping' command")
	case len(c.subs) > 0 && c.s.Proto < 3:
		// A RESP2 subscriber reads only messages, so the reply looks like one.
		c.Array(2)
		c.Text("pong")
		if len(args) == 2 {
			c.Bulk(args[1])
		} else {
			c.Text("")
		}
	case len(args) == 2:
		c.Bulk(args[1])
	default:
		c.Status("PONG")
	}
}

func runSelect(c *client, args [][]byte) {
	n, ok := word.Integer(args[1])
	switch {
	case !ok:
		c.Error(reply.ErrNotInteger)
	case n == 0:
		c.h.databases.End()
		c.OK()
	case c.h.cfg.Forward == nil:
		c.Error(reply.ErrDB)
	default:
		c.warnDatabase(n)
		c.Error(reply.ErrNodeDB)
	}
}

// warnDatabase logs that a client selected a database: some clients ignore the error.
func (c *client) warnDatabase(n int64) {
	c.h.databases.Note("times", 1, func() []any {
		return []any{"database", n, "addr", clients.Addr(c.s.Remote), "name", c.own.Name, "lib", c.own.Lib}
	})
}

func runQuit(c *client, _ [][]byte) {
	c.OK()
	c.s.CloseAfterReply()
}

// runReset resets what the client has set, except for SETINFO, as in Redis.
func runReset(c *client, _ [][]byte) {
	c.endTransaction()
	c.slots.Release()
	c.s.Reserve(-c.subSize)
	c.subs, c.subSize = nil, 0
	c.off, c.skip, c.skipNext = false, false, false
	c.s.Proto = 2
	c.setUser(c.acl.Anonymous())
	c.own = clients.Facts{Lib: c.own.Lib, LibVer: c.own.LibVer}
	c.Status("RESET")
}
