package commands

import "github.com/rlproxy/rlproxy/engine"

// slideRow is RL.SLIDE, the exact log.
func slideRow() row {
	return row{
		name: "rl.slide", arity: -4, flags: writes, keys: oneKey, group: "ratelimit", since: "1.0.0",
		cost:    "O(W) with W the number of windows, whatever the limits and costs",
		summary: "Admits at most the limit in any trailing window, exactly",
		args:    []arg{keyArg, pairs, costArg, idArg, shardsArg, failArg},
		replies: decisionReply,
		example: []example{
			{"RL.SLIDE user:42 100 60", "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{"RL.SLIDE user:42 10 1s 1000 1h COST 3", "1) (integer) 1\n2) (integer) 10\n3) (integer) 7\n4) (integer) 0\n5) (integer) 1001"},
		},
		parse: parseDecision(engine.OpSlide, commonOptions),
		reply: replyDecision,
	}
}
