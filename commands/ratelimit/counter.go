package ratelimit

import (
	"strconv"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// RL.COUNTER, which weighs sub-windows by their overlap.
func init() {
	register(limit.Counter, algorithm{
		options: newOption("BUCKETS", setBuckets) | newOption("STRICT", nil),
		args: []table.Arg{
			{Name: "n", Type: "integer", Token: "BUCKETS", Optional: true,
				About: "sub-windows per window, 1 to 1000 and at most one per millisecond; default 1"},
			{Name: "strict", Type: "pure-token", Token: "STRICT", Optional: true,
				About: "count the oldest sub-window in full, so that no trailing window exceeds the limit"},
		},
		check: checkBuckets,
		optionWords: func(param, manner int64, _ []limit.Window) (words []string) {
			if param > 1 {
				words = append(words, "BUCKETS", strconv.FormatInt(param, 10))
			}
			if manner == limit.Strict {
				words = append(words, "STRICT")
			}
			return words
		},
		command: func(*grammar) table.Command {
			return table.Command{
				Name:       "rl.counter",
				Complexity: "O(W*B) with W the number of windows and B the number of buckets per window",
				Summary:    "Counts in fixed windows and weighs the previous one by its overlap, in little memory",
				Replies:    asSlide,
				Examples: []table.Example{
					{Line: "RL.COUNTER user:42 100 60 BUCKETS 6",
						Reply: "1) (integer) 1\n2) (integer) 100\n3) (integer) 99\n4) (integer) 0\n5) (integer) 55001"},
				},
			}
		},
	})
}

func setBuckets(r *engine.Request, value []byte) string {
	n, ok := word.Integer(value)
	if !ok || n < 1 || n > limit.MaxBuckets {
		return wrong(reply.ErrBuckets, value)
	}
	r.Param = n
	return checkBuckets(n, r.Limits())
}

// checkBuckets returns an error reply if a window has fewer milliseconds than buckets, else "".
func checkBuckets(n int64, ws []limit.Window) string {
	for _, w := range ws {
		if n > w.Length {
			return tooFine(n, w.Length)
		}
	}
	return ""
}
