package commands

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/resp"
)

const decisionReply = "Five integers: allowed (1 or 0), limit, remaining (-1: answered by a FAIL policy), " +
	"retry_after and reset_after in milliseconds. With several pairs they speak of the pair that " +
	"denied with the longest retry_after, else of the one with the least remaining."

// Arguments that several commands share.
var (
	keyArg = arg{name: "key", typ: "key", about: "what is limited: 1 to 4096 bytes of any kind"}
	pairs  = arg{name: "pair", typ: "block", multiple: true, args: []arg{
		{name: "limit", typ: "integer", about: "most cost admitted per window, 1 to 1000000000000"},
		{name: "window", typ: "string", about: "seconds, or an integer with `ms`, `s`, `m`, `h` or `d`: 1ms to 366d; at most 8 pairs, no window twice"},
	}}
	costArg   = arg{name: "n", typ: "integer", token: "COST", optional: true, about: "0 to the smallest limit, 1 if not given; 0 asks without charging, and the answer speaks of a cost of 1"}
	idArg     = arg{name: "id", typ: "string", token: "ID", optional: true, about: "what the request is about; on a split key it chooses the sub-shard asked first, and never changes the answer"}
	shardsArg = arg{name: "n", typ: "integer", token: "SHARDS", optional: true, about: "split the key over 1 to 1024 sub-shards, never more than the smallest limit"}
	failArg   = arg{name: "policy", typ: "oneof", token: "FAIL", optional: true, about: "what to answer when the key's node cannot", args: []arg{
		{name: "open", typ: "pure-token", token: "OPEN"},
		{name: "closed", typ: "pure-token", token: "CLOSED"},
		{name: "local", typ: "pure-token", token: "LOCAL"},
		{name: "error", typ: "pure-token", token: "ERROR"},
	}}
)

// writes and reads are the flags of commands that change a key's state or not.
var (
	writes = []string{"write", "denyoom", "fast"}
	reads  = []string{"readonly", "fast"}
	oneKey = keys{1, 1, 1}
)

// replyDecision encodes the answer to RL.SLIDE, RL.COUNTER and RL.FIXED.
func replyDecision(dst []byte, _ int, results []engine.Result) []byte {
	r := &results[0]
	if r.Err != nil {
		return appendFailure(dst, r.Err)
	}
	allowed := int64(0)
	if r.Allowed {
		allowed = 1
	}
	dst = resp.AppendArray(dst, 5)
	dst = resp.AppendInt(dst, allowed)
	dst = resp.AppendInt(dst, r.Limit)
	dst = resp.AppendInt(dst, r.Remaining)
	dst = resp.AppendInt(dst, r.RetryAfter)
	return resp.AppendInt(dst, r.ResetAfter)
}

// appendFailure appends an engine's error, which begins with its code.
func appendFailure(dst []byte, err error) []byte {
	return resp.AppendError(dst, err.Error())
}
