package commands

import "github.com/rlproxy/rlproxy/engine"

// fixedRow is RL.FIXED, the plain counter.
func fixedRow() row {
	return row{
		name: "rl.fixed", arity: -4, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(W) with W the number of windows",
		summary: "Admits the limit in each fixed window: up to twice that around a boundary",
		args:    []arg{keyArg, pairs, costArg, idArg, shardsArg, failArg},
		replies: decisionReply,
		example: []example{
			{"RL.FIXED user:42 100 1h", "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 1835000"},
		},
		parse: parseDecision(engine.OpFixed, commonOptions),
		reply: replyDecision,
	}
}
