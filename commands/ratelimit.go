package commands

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

const decisionReply = "Five integers: allowed (1 or 0), limit, remaining (-1: answered by a FAIL policy), " +
	"retry_after and reset_after in milliseconds. With several pairs they speak of the pair that " +
	"denied with the longest retry_after, else of the one with the least remaining."

// Arguments that several commands share.
var (
	keyArg = arg{name: "key", typ: "key", about: "what is limited: 1 to 4096 bytes of any kind"}
	pairs  = arg{name: "pair", typ: "block", multiple: true, args: []arg{
		{name: "limit", typ: "integer", about: "most cost admitted per window, 1 to 1000000000000"},
		{name: "window", typ: "string", about: "seconds, or an integer with `ms`, `s`, `m`, `h` or `d`: 1ms to 366d; at most 8 pairs, no window twice"},
	}}
	costArg   = arg{name: "n", typ: "integer", token: "COST", optional: true, about: "0 to the smallest limit, 1 if not given; 0 asks without charging, and the answer speaks of a cost of 1"}
	idArg     = arg{name: "id", typ: "string", token: "ID", optional: true, about: "what the request is about; on a split key it chooses the sub-shard asked first, and never changes the answer"}
	shardsArg = arg{name: "n", typ: "integer", token: "SHARDS", optional: true, about: "split the key over 1 to 1024 sub-shards, never more than the smallest limit"}
	failArg   = arg{name: "policy", typ: "oneof", token: "FAIL", optional: true, about: "what to answer when the key's node cannot", args: []arg{
		{name: "open", typ: "pure-token", token: "OPEN"},
		{name: "closed", typ: "pure-token", token: "CLOSED"},
		{name: "local", typ: "pure-token", token: "LOCAL"},
		{name: "error", typ: "pure-token", token: "ERROR"},
	}}
)

// writes and reads are the flags of commands that change a key's state or not.
var (
	writes = []string{"write", "denyoom", "fast"}
	reads  = []string{"readonly", "fast"}
	oneKey = keys{1, 1, 1}
)

func rateLimitRows() []row {
	const common = optCost | optID | optShards | optFail
	return []row{{
		name: "rl.slide", arity: -4, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(W) with W the number of windows, whatever the limits and costs",
		summary: "Admits at most the limit in any trailing window, exactly",
		args:    []arg{keyArg, pairs, costArg, idArg, shardsArg, failArg},
		replies: decisionReply,
		example: []example{
			{"RL.SLIDE user:42 100 60", "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{"RL.SLIDE user:42 10 1s 1000 1h COST 3", "1) (integer) 1\n2) (integer) 10\n3) (integer) 7\n4) (integer) 0\n5) (integer) 1001"},
		},
		parse: parseDecision(engine.OpSlide, common),
		reply: replyDecision,
	}, {
		name: "rl.counter", arity: -4, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(W*B) with W the number of windows and B the buckets of each",
		summary: "Weighs the previous fixed window by its overlap: little memory, smooth windows",
		args: []arg{keyArg, pairs, costArg,
			{name: "n", typ: "integer", token: "BUCKETS", optional: true, about: "sub-windows per window, 1 to 1000 and at most one a millisecond; 1 if not given"},
			{name: "strict", typ: "pure-token", token: "STRICT", optional: true, about: "count the oldest sub-window in full: never more than the limit in any trailing window"},
			idArg, shardsArg, failArg},
		replies: decisionReply,
		example: []example{
			{"RL.COUNTER user:42 100 60 BUCKETS 6", "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 63250"},
		},
		parse: parseDecision(engine.OpCounter, common|optBuckets|optStrict),
		reply: replyDecision,
	}, {
		name: "rl.fixed", arity: -4, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(W) with W the number of windows",
		summary: "Admits the limit in each fixed window: up to twice that around a boundary",
		args:    []arg{keyArg, pairs, costArg, idArg, shardsArg, failArg},
		replies: decisionReply,
		example: []example{
			{"RL.FIXED user:42 100 1h", "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 1835000"},
		},
		parse: parseDecision(engine.OpFixed, common),
		reply: replyDecision,
	}, {
		name: "rl.reset", arity: -2, flags: writes, keys: keys{1, -1, 1}, group: "ratelimit", since: "1.0.0",
		cost:    "O(N) with N the number of keys",
		summary: "Forgets keys: everything they have admitted, of every command and window",
		args:    []arg{{name: "key", typ: "key", multiple: true, about: "1 to 4096 bytes of any kind"}},
		replies: "Integer: how many of the keys had state.",
		example: []example{{"RL.RESET user:42 user:43", "(integer) 1"}},
		parse:   parseReset,
		reply:   replyReset,
	}, {
		name: "rl.inspect", arity: 2, flags: reads, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(S) with S the number of states and sub-shards of the key",
		summary: "Shows what is known of a key, without charging or changing anything",
		args:    []arg{keyArg},
		replies: "Array of maps (flat arrays in RESP2), one for each command, window and buckets the key was " +
			"used with; empty for an unknown key. limit and remaining are as last charged; parts holds the " +
			"sub-shards of a split key.",
		example: []example{{"RL.INSPECT user:42", "1)  1) \"command\"\n    2) \"RL.SLIDE\"\n    3) \"window-ms\"\n    4) (integer) 60000\n    5) \"buckets\"\n    6) (integer) 1\n    7) \"used\"\n    8) (integer) 1\n    9) \"limit\"\n   10) (integer) 100\n   11) \"remaining\"\n   12) (integer) 99\n   13) \"node\"\n   14) \"embedded\"\n   15) \"ttl-ms\"\n   16) (integer) 58211\n   17) \"rate\"\n   18) (integer) 0\n   19) \"parts\"\n   20) (empty array)"}},
		parse:   parseInspect,
		reply:   replyInspect,
	}, {
		name: "rl.hotkeys", arity: -1, flags: []string{"readonly"}, group: "ratelimit", since: "1.0.0",
		cost:    "O(N*log(N)) with N the number of keys that are watched",
		summary: "Lists the busiest keys seen by this proxy",
		args:    []arg{{name: "n", typ: "integer", token: "COUNT", optional: true, about: "most keys to list, 10 if not given"}},
		replies: "Array, the busiest key first. Each element is an array: key, decisions per second, admitted, denied, sub-shards.",
		example: []example{{"RL.HOTKEYS COUNT 1", "1) 1) \"user:42\"\n   2) (integer) 1250\n   3) (integer) 100\n   4) (integer) 1150\n   5) (integer) 1"}},
		run:     runHotKeys,
	}}
}

// replyDecision encodes the answer to RL.SLIDE, RL.COUNTER and RL.FIXED.
func replyDecision(dst []byte, _ int, results []engine.Result) []byte {
	r := &results[0]
	if r.Err != nil {
		return appendFailure(dst, r.Err)
	}
	allowed := int64(0)
	if r.Allowed {
		allowed = 1
	}
	dst = resp.AppendArray(dst, 5)
	dst = resp.AppendInt(dst, allowed)
	dst = resp.AppendInt(dst, r.Limit)
	dst = resp.AppendInt(dst, r.Remaining)
	dst = resp.AppendInt(dst, r.RetryAfter)
	return resp.AppendInt(dst, r.ResetAfter)
}

// replyReset counts the keys that had state, unless a key could not be reset.
func replyReset(dst []byte, _ int, results []engine.Result) []byte {
	n := int64(0)
	for i := range results {
		if err := results[i].Err; err != nil {
			return appendFailure(dst, err)
		}
		if results[i].Reset {
			n++
		}
	}
	return resp.AppendInt(dst, n)
}

func replyInspect(dst []byte, proto int, results []engine.Result) []byte {
	r := &results[0]
	if r.Err != nil {
		return appendFailure(dst, r.Err)
	}
	dst = resp.AppendArray(dst, len(r.States))
	for i := range r.States {
		dst = appendState(dst, proto, &r.States[i])
	}
	return dst
}

func appendState(dst []byte, proto int, s *engine.State) []byte {
	dst = resp.AppendMap(dst, proto, 10)
	dst = resp.AppendBulkString(dst, "command")
	dst = resp.AppendBulkString(dst, s.Op.String())
	dst = appendField(dst, "window-ms", s.Window)
	dst = appendField(dst, "buckets", s.Buckets)
	dst = appendField(dst, "used", s.Used)
	dst = appendField(dst, "limit", s.Limit)
	dst = appendField(dst, "remaining", s.Remaining)
	dst = resp.AppendBulkString(dst, "node")
	dst = resp.AppendBulkString(dst, s.Node)
	dst = appendField(dst, "ttl-ms", s.TTL)
	dst = appendField(dst, "rate", s.Rate)
	dst = resp.AppendBulkString(dst, "parts")
	dst = resp.AppendArray(dst, len(s.Parts))
	for i := range s.Parts {
		p := &s.Parts[i]
		dst = resp.AppendMap(dst, proto, 5)
		dst = appendField(dst, "part", int64(p.Part))
		dst = resp.AppendBulkString(dst, "node")
		dst = resp.AppendBulkString(dst, p.Node)
		dst = appendField(dst, "held", p.Held)
		dst = appendField(dst, "used", p.Used)
		dst = appendField(dst, "lease-ms", p.Lease)
	}
	return dst
}

// appendField appends a key and an integer of a map.
func appendField(dst []byte, name string, n int64) []byte {
	return resp.AppendInt(resp.AppendBulkString(dst, name), n)
}

// appendFailure appends an engine's error, which begins with its code.
func appendFailure(dst []byte, err error) []byte {
	return resp.AppendError(dst, err.Error())
}

// replyForward passes a node's reply on as it came.
func replyForward(dst []byte, _ int, results []engine.Result) []byte {
	if err := results[0].Err; err != nil {
		return appendFailure(dst, err)
	}
	return append(dst, results[0].Raw...)
}

func runHotKeys(c *client, args [][]byte) {
	n := int64(10)
	if len(args) > 1 {
		if len(args) != 3 || !fold(args[1], "COUNT") {
			c.fail(errSyntax)
			return
		}
		var ok bool
		if n, ok = integer(args[2]); !ok {
			c.fail(errNotInteger)
			return
		}
		if n < 1 {
			c.fail(errNotPositive)
			return
		}
	}
	var keys []engine.HotKey
	if hot := c.h.cfg.Hot; hot != nil {
		keys = hot.HotKeys(int(n))
	}
	c.array(len(keys))
	for i := range keys {
		k := &keys[i]
		c.array(5)
		c.bulk(k.Key)
		c.int(k.Rate)
		c.int(k.Admitted)
		c.int(k.Denied)
		c.int(int64(k.Parts))
	}
}
