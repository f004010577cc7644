package commands

// session flags of Redis for commands of the connection.
var (
	loginFlags = []string{"noscript", "loading", "stale", "fast", "no_auth", "allow_busy"}
	localFlags = []string{"loading", "stale", "fast"}
)

func connectionRows() []row {
	return []row{{
		name: "hello", arity: -1, flags: loginFlags, group: "connection", since: "6.0.0", cost: "O(1)",
		summary: "Switches the protocol, logs in and names the connection",
		args: []arg{{name: "arguments", typ: "block", optional: true, args: []arg{
			{name: "protover", typ: "integer", about: "2 or 3; the version stays if not given"},
			{name: "username_password", typ: "block", token: "AUTH", optional: true, args: []arg{
				{name: "username", typ: "string", about: "`default` unless users are configured"},
				{name: "password", typ: "string"},
			}},
			{name: "clientname", typ: "string", token: "SETNAME", optional: true},
		}}},
		replies: "Map (flat in RESP2): server, version, proto, id, mode, role, modules.",
		example: []example{{"HELLO 3", "1# \"server\" => \"redis\"\n2# \"version\" => \"" + RedisVersion + "\"\n3# \"proto\" => (integer) 3\n4# \"id\" => (integer) 1\n5# \"mode\" => \"standalone\"\n6# \"role\" => \"master\"\n7# \"modules\" => (empty array)"}},
		run:     runHello, barrier: true, early: true,
	}, {
		name: "auth", arity: -2, flags: loginFlags, group: "connection", since: "1.0.0", cost: "O(1)",
		summary: "Logs in",
		args: []arg{
			{name: "username", typ: "string", optional: true, about: "`default` if not given"},
			{name: "password", typ: "string"},
		},
		replies: "OK, or the error WRONGPASS.",
		example: []example{{"AUTH secret", "OK"}},
		run:     runAuth, barrier: true, early: true,
	}, {
		name: "ping", arity: -1, flags: []string{"fast"}, tips: []string{"request_policy:all_shards", "response_policy:all_succeeded"}, group: "connection", since: "1.0.0", cost: "O(1)",
		summary: "Answers, to show that the connection works",
		args:    []arg{{name: "message", typ: "string", optional: true}},
		replies: "PONG, or the message.",
		example: []example{{"PING", "PONG"}, {"PING hello", "\"hello\""}},
		run:     runPing, subscribed: true,
	}, {
		name: "echo", arity: 2, flags: localFlags, group: "connection", since: "1.0.0", cost: "O(1)",
		summary: "Answers with the message",
		args:    []arg{{name: "message", typ: "string"}},
		replies: "The message.",
		example: []example{{"ECHO hello", "\"hello\""}},
		run:     func(c *client, args [][]byte) { c.bulk(args[1]) },
	}, {
		name: "select", arity: 2, flags: localFlags, group: "connection", since: "1.0.0", cost: "O(1)",
		summary: "Selects a database: there is only number 0",
		args:    []arg{{name: "index", typ: "integer", about: "0"}},
		replies: "OK.",
		example: []example{{"SELECT 0", "OK"}},
		run:     runSelect,
	}, {
		name: "quit", arity: -1, flags: loginFlags, group: "connection", since: "1.0.0", cost: "O(1)",
		summary: "Closes the connection once earlier commands are answered",
		replies: "OK.",
		example: []example{{"QUIT", "OK"}},
		run:     runQuit, barrier: true, early: true, direct: true, subscribed: true,
	}, {
		name: "reset", arity: 1, flags: loginFlags, group: "connection", since: "6.2.0", cost: "O(1)",
		summary: "Puts the connection into the state of a new one",
		replies: "RESET.",
		example: []example{{"RESET", "RESET"}},
		run:     runReset, barrier: true, early: true, direct: true, subscribed: true,
	}}
}

func runHello(c *client, args [][]byte) {
	proto := int64(c.s.Proto)
	next := 1
	if len(args) > 1 {
		var ok bool
		if proto, ok = integer(args[1]); !ok {
			c.fail(errProtoInteger)
			return
		}
		if proto != 2 && proto != 3 {
			c.fail(errNoProto)
			return
		}
		next = 2
	}
	for next < len(args) {
		word, more := args[next], len(args)-next-1
		switch {
		case fold(word, "AUTH") && more >= 2:
			if !c.login(args[next+1], args[next+2]) {
				c.fail(errWrongPass)
				return
			}
			next += 3
		case fold(word, "SETNAME") && more >= 1:
			if !c.setName(args[next+1]) {
				return
			}
			next += 2
		default:
			c.fail("ERR Syntax error in HELLO option '" + string(cString(word, quoted)) + "'")
			return
		}
	}
	if c.user == nil {
		c.fail(errNoAuthHello)
		return
	}
	c.s.Proto = int(proto)
	c.dict(7)
	c.field("server", "redis")
	c.field("version", RedisVersion)
	c.text("proto")
	c.int(proto)
	c.text("id")
	c.int(c.s.ID)
	c.field("mode", "standalone")
	c.field("role", "master")
	c.text("modules")
	c.array(0)
}

func runPing(c *client, args [][]byte) {
	switch {
	case len(args) > 2:
		c.fail("ERR wrong number of arguments for 'ping' command")
	case len(c.subs) > 0 && c.s.Proto < 3:
		// A subscriber of RESP2 reads only messages, so the answer looks like one.
		c.array(2)
		c.text("pong")
		if len(args) == 2 {
			c.bulk(args[1])
		} else {
			c.text("")
		}
	case len(args) == 2:
		c.bulk(args[1])
	default:
		c.status("PONG")
	}
}

func runSelect(c *client, args [][]byte) {
	n, ok := integer(args[1])
	switch {
	case !ok:
		c.fail(errNotInteger)
	case n != 0:
		c.fail(errDB)
	default:
		c.ok()
	}
}

func runQuit(c *client, _ [][]byte) {
	c.ok()
	c.s.CloseAfterReply()
}

// runReset forgets what the client has set; what SETINFO told stays, as in Redis.
func runReset(c *client, _ [][]byte) {
	c.tx = transaction{}
	c.subs, c.subSize = nil, 0
	c.off, c.skip, c.skipNext = false, false, false
	c.s.Proto = 2
	c.become(c.acl.Anonymous())
	c.own = facts{lib: c.own.lib, libVer: c.own.libVer}
	c.status("RESET")
}
