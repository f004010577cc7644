package ratelimit

import (
	"cmp"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

func inspect() Command {
	return Command{Command: table.Command{
		Name: "rl.inspect", Arity: 2, Flags: reads, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(S) with S the number of states and shards of the key",
		Summary:    "Shows the state of a key, without charging or changing anything",
		Args:       []table.Arg{keyArg},
		Replies: "Array of maps (flat arrays in RESP2), one for each combination of command, window and BUCKETS " +
			"or refill with which the key was used and which still matters, with SHADOW or without; empty if there " +
			"is none. Leases of RL.ACQUIRE have window-ms 0, and their limit is the number of slots:\n\n" +
			"- `command`, `window-ms`, `buckets`: what the state is about. For CL.THROTTLE the window is the time in " +
			"which a full burst drains, and buckets is 0. RL.BUCKET has `refill` in place of `buckets`. A calendar " +
			"window has `calendar` and `tz` after `window-ms`: its word, such as month, and its time zone.\n" +
			"- `used`: the units in use now, without those that are held.\n" +
			"- `limit`: that of the request that last charged or held units, or of the reservation that last " +
			"lapsed.\n" +
			"- `remaining`: what is left of this limit now, after the units in use and those that are held.\n" +
			"- `node`: the node of the key, or of its home if it is split; `embedded` without backends.\n" +
			"- `ttl-ms`: until nothing of the key matters any more.\n" +
			"- `rate`: how many calls charged units in the last second, or held units, whichever are more.\n" +
			"- `parts`: a map for each shard of a split key: `part`, its number, 0 for the home; `node`; `held`, the " +
			"most units that it may have in use; `used`, those that it has; and `lease-ms`, until its lease " +
			"ends.\n" +
			"- `shadow`: 1 if the state counts requests with SHADOW, else 0.\n" +
			"- `held`, `holds`: the units that are held now, and the number of reservations or leases that hold " +
			"them.\n" +
			"- `lapsed`: how many reservations or leases have lapsed since the window last held nothing.\n" +
			"- `advanced`: the units that are [advanced](hot-keys.md#advance) to proxies, which `used` does not " +
			"have and `remaining` leaves out. Some of them may have been used: the proxies say so by the end of " +
			"their advances.\n" +
			"- `advances`: a map for each of these proxies: `proxy`, its host, process and some digits; `units`; and " +
			"`lapses-ms`, until all of the units count as used if the proxy says nothing.",
		Examples: []table.Example{{Line: "RL.INSPECT user:42",
			Reply: "1)  1) \"command\"\n    2) \"RL.SLIDE\"\n    3) \"window-ms\"\n    4) (integer) 60000\n    5) " +
				"\"buckets\"\n    6) (integer) 1\n    7) \"used\"\n    8) (integer) 1\n    9) \"limit\"\n   10) " +
				"(integer) 100\n   11) \"remaining\"\n   12) (integer) 99\n   13) \"node\"\n   14) \"embedded\"\n" +
				"   15) \"ttl-ms\"\n   16) (integer) 59001\n   17) \"rate\"\n   18) (integer) 1\n   19) " +
				"\"parts\"\n   20) " +
				"(empty array)\n   21) \"shadow\"\n   22) (integer) 0\n   23) \"held\"\n   24) (integer) 0\n   25) " +
				"\"holds\"\n   26) (integer) 0\n   27) \"lapsed\"\n   28) (integer) 0\n   29) \"advanced\"\n" +
				"   30) (integer) 0\n   31) \"advances\"\n   32) (empty array)"}},
	},
		Parse: parseInspect,
		Reply: replyInspect,
	}
}

func parseInspect(args [][]byte, p *engine.Pipeline) string {
	if !keyFits(args[1]) {
		return keyError(args[1])
	}
	p.AddBoth(engine.OpInspect, args[1])
	return ""
}

// replyInspect replies with the states of the key, and then with those of its shadow.
func replyInspect(dst []byte, proto int, _ []engine.Request, results []engine.Result) []byte {
	key, shadow := &results[0], &results[1]
	if err := cmp.Or(key.Err, shadow.Err); err != nil {
		return appendFailure(dst, err)
	}
	dst = resp.AppendArray(dst, len(key.States)+len(shadow.States))
	for i := range key.States {
		dst = appendState(dst, proto, &key.States[i], 0)
	}
	for i := range shadow.States {
		dst = appendState(dst, proto, &shadow.States[i], 1)
	}
	return dst
}

// appendState appends a state; shadow is 1 if it is of the key's shadow, else 0.
func appendState(dst []byte, proto int, s *engine.Inspection, shadow int64) []byte {
	w, fields := limit.Window{Length: s.Window}, 16
	period, zone := w.Calendar()
	if period != "" {
		fields += 2
	}
	dst = resp.AppendMap(dst, proto, fields)
	dst = resp.AppendBulkString(dst, "command")
	dst = resp.AppendBulkString(dst, s.Kind.String())
	dst = appendField(dst, "window-ms", w.Ms())
	if period != "" {
		dst = resp.AppendBulkString(resp.AppendBulkString(dst, "calendar"), period)
		dst = resp.AppendBulkString(resp.AppendBulkString(dst, "tz"), zone)
	}
	dst = appendField(dst, s.Kind.Param(), s.Param)
	dst = appendField(dst, "used", s.Used)
	dst = appendField(dst, "limit", s.Limit)
	dst = appendField(dst, "remaining", s.Remaining)
	dst = resp.AppendBulkString(dst, "node")
	dst = resp.AppendBulkString(dst, s.Node)
	dst = appendField(dst, "ttl-ms", s.TTL)
	dst = appendField(dst, "rate", s.Rate)
	dst = resp.AppendBulkString(dst, "parts")
	dst = resp.AppendArray(dst, len(s.Shards))
	for i := range s.Shards {
		p := &s.Shards[i]
		dst = resp.AppendMap(dst, proto, 5)
		dst = appendField(dst, "part", int64(p.Number))
		dst = resp.AppendBulkString(dst, "node")
		dst = resp.AppendBulkString(dst, p.Node)
		dst = appendField(dst, "held", p.Held)
		dst = appendField(dst, "used", p.Used)
		dst = appendField(dst, "lease-ms", p.Lease)
	}
	dst = appendField(dst, "shadow", shadow)
	dst = appendField(dst, "held", s.Held)
	dst = appendField(dst, "holds", s.Holds)
	dst = appendField(dst, "lapsed", s.Lapsed)
	dst = appendField(dst, "advanced", s.Advanced)
	dst = resp.AppendBulkString(dst, "advances")
	dst = resp.AppendArray(dst, len(s.Advances))
	for i := range s.Advances {
		a := &s.Advances[i]
		dst = resp.AppendMap(dst, proto, 3)
		dst = resp.AppendBulkString(dst, "proxy")
		dst = resp.AppendBulkString(dst, a.Proxy)
		dst = appendField(dst, "units", a.Units)
		dst = appendField(dst, "lapses-ms", a.Left)
	}
	return dst
}

// appendField appends a key of a map and its integer.
func appendField(dst []byte, name string, n int64) []byte {
	return resp.AppendInt(resp.AppendBulkString(dst, name), n)
}
