package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// counter returns RL.COUNTER, which weighs sub-windows by their overlap.
func counter() Command {
	g := grammarOf(limit.Counter)
	return Command{Command: table.Command{
		Name: "rl.counter", Arity: -4, Flags: writesMany, Keys: g.keys, Group: "ratelimit", Since: "0.1.0",
		Complexity: "O(W*B) with W the number of windows and B the number of buckets per window",
		Summary:    "Counts in fixed windows and weighs the previous one by its overlap, in little memory",
		Args:       []table.Arg{keyArg, pairs, costArg, bucketsArg, strictArg, idArg, onceArg, shardsArg, failArg, shadowArg, andArg(keyArg, pairs)},
		Replies:    asSlide,
		Examples: []table.Example{
			{Line: "RL.COUNTER user:42 100 60 BUCKETS 6", Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 63250"},
		},
	},
		Parse: g.parse,
		Reply: replyDecision,
	}
}
