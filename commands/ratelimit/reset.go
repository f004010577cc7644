package ratelimit

import (
	"bytes"
	"cmp"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

func reset() Command {
	return Command{Command: table.Command{
		Name: "rl.reset", Arity: -2, Flags: writes, Keys: table.Keys{First: 1, Last: -1, Step: 1}, Group: "ratelimit",
		Since:      "0.1.0",
		Complexity: "O(N) with N the number of keys",
		Summary: "Deletes the state of keys, of every command and window, with SHADOW or without, and their " +
			"reservations, leases and ids",
		Args: []table.Arg{{Name: "key", Type: "key", Multiple: true, About: "1 to 4096 arbitrary bytes"}},
		Replies: "Integer: the number of keys that had state. Keys are no patterns: `tenant:*` is the key of that " +
			"name. If no key had state and one of them has a `*`, the reply is an error that says so. If a node does " +
			"not answer, it is the error UNAVAILABLE, whatever `fail-policy` says; keys that are already reset stay " +
			"reset. While proxies write back what FAIL LOCAL counted in an outage, a count may be charged after the " +
			"reset (docs/operations.md says when).",
		Examples: []table.Example{{Line: "RL.RESET user:42 user:43", Reply: "(integer) 1"}},
	},
		Parse:      parseReset,
		Reply:      replyReset,
		MergeCount: countReset,
		Nothing:    nothingReset,
		KeepWords:  1,
	}
}

// parseReset appends two requests per key: for the key and its shadow.
func parseReset(args [][]byte, p *engine.Pipeline) string {
	for _, key := range args[1:] {
		if !keyFits(key) {
			return keyError(key)
		}
		p.AddBoth(engine.OpReset, key)
	}
	return ""
}

// replyReset replies with the number of keys that had state, or with the first error.
func replyReset(dst []byte, _ int, requests []engine.Request, results []engine.Result) []byte {
	n, err := countReset(results)
	if err != nil {
		return appendFailure(dst, err)
	}
	if msg := nothingReset(requests); n == 0 && msg != "" {
		return resp.AppendError(dst, msg)
	}
	return resp.AppendInt(dst, n)
}

// nothingReset returns an error if one of the keys of a reset that found no state looks like a pattern, else "".
func nothingReset(requests []engine.Request) string {
	for i := 0; i < len(requests); i += 2 { // each key's shadow follows it
		if bytes.IndexByte(requests[i].Key, '*') >= 0 {
			return wrong(reply.ErrResetGlob, requests[i].Key)
		}
	}
	return ""
}

// countReset returns the number of keys that had state, themselves or their shadows, or the first error.
func countReset(results []engine.Result) (n int64, err error) {
	for i := 0; i < len(results); i += 2 {
		key, shadow := &results[i], &results[i+1]
		if err := cmp.Or(key.Err, shadow.Err); err != nil {
			return 0, err
		}
		if key.Reset || shadow.Reset {
			n++
		}
	}
	return n, nil
}
