package commands

import "github.com/rlproxy/rlproxy/engine"

// counterRow is RL.COUNTER, sub-windows weighed by their overlap.
func counterRow() row {
	return row{
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
		parse: parseDecision(engine.OpCounter, commonOptions|optBuckets|optStrict),
		reply: replyDecision,
	}
}
