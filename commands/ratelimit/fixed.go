package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// RL.FIXED, one counter per fixed window.
func init() {
	register(limit.Fixed, algorithm{command: func(*grammar) table.Command {
		return table.Command{
			Name:       "rl.fixed",
			Complexity: "O(W) with W the number of windows",
			Summary:    "Admits at most the limit in each fixed window, so up to twice the limit around a boundary",
			Replies:    asSlide,
			Examples: []table.Example{
				{Line: "RL.FIXED user:42 100 1h",
					Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 1835000"},
			},
		}
	}})
}
