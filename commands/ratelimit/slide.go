package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// slide returns RL.SLIDE, the exact sliding log.
func slide() Command {
	return Command{Command: table.Command{
		Name: "rl.slide", Arity: -4, Flags: writes, Keys: oneKey, Group: "ratelimit", Since: "0.1.0",
		Cost:    "O(W) with W the number of windows, independent of limits and costs",
		Summary: "Admits at most the limit in any trailing window, exactly",
		Args:    []table.Arg{keyArg, pairs, costArg, idArg, shardsArg, failArg, shadowArg},
		Replies: decisionReply,
		Examples: []table.Example{
			{Line: "RL.SLIDE user:42 100 60", Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
			{Line: "RL.SLIDE user:42 10 1s 1000 1h COST 3", Reply: "1) (integer) 1\n2) (integer) 10\n3) (integer) 7\n4) (integer) 0\n5) (integer) 1001"},
		},
	},
		Parse: parseDecision(limit.Slide),
		Reply: replyDecision,
	}
}
