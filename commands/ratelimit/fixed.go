package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// fixed returns RL.FIXED, one counter per fixed window.
func fixed() Command {
	g := grammarOf(limit.Fixed)
	return Command{Command: table.Command{
		Name: "rl.fixed", Arity: -4, Flags: writesMany, Keys: g.keys, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(W) with W the number of windows",
		Summary:    "Admits at most the limit in each fixed window, so up to twice the limit around a boundary",
		Args:       []table.Arg{keyArg, pairs, costArg, idArg, onceArg, shardsArg, failArg, shadowArg, andArg(keyArg, pairs)},
		Replies:    asSlide,
		Examples: []table.Example{
			{Line: "RL.FIXED user:42 100 1h", Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 1835000"},
		},
	},
		Parse: g.parse,
		Reply: replyDecision,
	}
}
