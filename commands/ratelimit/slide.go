package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// RL.SLIDE, the exact sliding log.
func init() {
	register(limit.Slide, algorithm{command: func(*grammar) table.Command {
		return table.Command{
			Name:       "rl.slide",
			Complexity: "O(W) with W the number of windows, independent of limits and costs",
			Summary:    "Admits at most the limit in any trailing window, exactly",
			Replies:    decisionReply + multiKeyReply,
			Examples: []table.Example{
				{Line: "RL.SLIDE user:42 100 60",
					Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 60001"},
				{Line: "RL.SLIDE user:42 10 1s 1000 1h COST 3",
					Reply: "1) (integer) 1\n2) (integer) 10\n3) (integer) 7\n4) (integer) 0\n5) (integer) 1001"},
				{Line: "RL.SLIDE user:42 100 60 AND everyone 100000 60 COST 2",
					Reply: "1) 1) (integer) 1\n   2) (integer) 100\n   3) (integer) 99\n   4) (integer) 0\n   5) " +
						"(integer) 60001\n2) 1) (integer) 1\n   2) (integer) 100000\n   3) (integer) 99998\n   4) " +
						"(integer) 0\n   5) (integer) 60001"},
			},
		}
	}})
}
