package ratelimit

import (
	"strconv"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// RL.BUCKET, the token bucket.
func init() {
	register(limit.Bucket, algorithm{
		limits: []table.Arg{
			{Name: "capacity", Type: "integer", About: "the most tokens in the bucket, 1 to 1000000000000"},
			{Name: "refill", Type: "integer", About: "tokens that come per window, continuously, 1 to 1000000000000; " +
				"a bucket fills within 146 years"},
			{Name: "window", Type: "string",
				About: "seconds, or an integer with `ms`, `s`, `m`, `h` or `d`, from 1ms to 366d"},
		},
		words: 4, least: "a key, a capacity, a refill and a window",
		begin: beginBucket,
		check: checkFill,
		limitWords: func(w limit.Window, refill int64) []string {
			return []string{strconv.FormatInt(w.Limit, 10), strconv.FormatInt(refill, 10), WindowWord(w.Length)}
		},
		command: func(*grammar) table.Command {
			return table.Command{
				Name:       "rl.bucket",
				Complexity: "O(1)",
				Summary:    "Takes tokens from a bucket that refills continuously",
				Replies: "Five integers: allowed (1 or 0), capacity, whole tokens left (-1: answered by a FAIL " +
					"policy), retry_after, " +
					"and the milliseconds until the bucket is full. Within any time t at most capacity + refill " +
					"x t / window tokens " +
					"are taken, by the node's clock in microseconds, without rounding." + multiKeyReply,
				Examples: []table.Example{
					{Line: "RL.BUCKET user:42 10 5 1s",
						Reply: "1) (integer) 1\n2) (integer) 10\n3) (integer) 9\n4) (integer) 0\n5) (integer) 200"},
					{Line: "RL.BUCKET user:42 10 5 1s COST 10",
						Reply: "1) (integer) 1\n2) (integer) 10\n3) (integer) 0\n4) (integer) 0\n5) (integer) 2000"},
				},
			}
		},
	})
}

const (
	errCapacity = "ERR capacity must be an integer between 1 and 1000000000000"
	errRefill   = "ERR refill must be an integer between 1 and 1000000000000"
	errFill     = "ERR the bucket must fill within 146 years"
)

func beginBucket(r *engine.Request, words [][]byte) ([][]byte, string) {
	var n [2]int64
	for i, text := range [...]string{errCapacity, errRefill} {
		if len(words) == i {
			return nil, reply.ErrSyntax + ": a bucket has a capacity, a refill and a window"
		}
		var ok bool
		if n[i], ok = word.Integer(words[i]); !ok || n[i] < 1 || n[i] > limit.MaxLimit {
			return nil, wrong(text, words[i])
		}
	}
	if len(words) == 2 {
		return nil, reply.ErrSyntax + ": a bucket has a capacity, a refill and a window"
	}
	length, ok := window(words[2])
	if !ok {
		return nil, wrong(reply.ErrWindow, words[2])
	}
	r.N, r.Param, r.Windows[0] = 1, n[1], limit.Window{Limit: n[0], Length: length}
	return words[3:], checkFill(n[1], r.Limits())
}

// checkFill returns an error reply if a bucket fills too slowly, else "".
func checkFill(refill int64, ws []limit.Window) string {
	for _, w := range ws {
		if us, _ := limit.FillTime(w.Limit, w.Length, refill); us >= limit.MaxFill {
			return errFill + "; the capacity was " + strconv.FormatInt(w.Limit, 10)
		}
	}
	return ""
}
