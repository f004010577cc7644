package commands

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

// resetRow is RL.RESET.
func resetRow() row {
	return row{
		name: "rl.reset", arity: -2, flags: writes, keys: keys{1, -1, 1}, group: "ratelimit", since: "1.0.0",
		cost:    "O(N) with N the number of keys",
		summary: "Forgets keys: everything they have admitted, of every command and window",
		args:    []arg{{name: "key", typ: "key", multiple: true, about: "1 to 4096 bytes of any kind"}},
		replies: "Integer: how many of the keys had state.",
		example: []example{{"RL.RESET user:42 user:43", "(integer) 1"}},
		parse:   parseReset,
		reply:   replyReset,
	}
}

// parseReset makes one request for each key.
func parseReset(args [][]byte, p *engine.Pipeline) string {
	for _, key := range args[1:] {
		if !keyFits(key) {
			return errKey
		}
		r := p.Add()
		r.Op, r.Key = engine.OpReset, key
	}
	return ""
}

// replyReset counts the keys that had state, unless a key could not be reset.
func replyReset(dst []byte, _ int, results []engine.Result) []byte {
	n := int64(0)
	for i := range results {
		if err := results[i].Err; err != nil {
			return appendFailure(dst, err)
		}
		if results[i].Reset {
			n++
		}
	}
	return resp.AppendInt(dst, n)
}
