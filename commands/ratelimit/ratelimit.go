// Package ratelimit holds the rate limit commands: it parses their words into requests to an engine, and encodes the
// results as replies. It knows nothing about sessions and connections.
//
// Reading order: ratelimit.go (this file), parse.go (the common grammar), errors.go (what it says of a wrong word),
// slide.go (one command), and.go (multi-key requests), details.go with headers.go (what HTTP servers need), then a file
// for each of the other commands.
package ratelimit

import (
	"slices"

	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
)

// Command is a rate limit command.
type Command struct {
	table.Command

	// Parse appends the command's requests to the pipeline. It returns an error reply, or "".
	Parse func(args [][]byte, p *engine.Pipeline) string
	// Reply appends the reply to the requests that Parse made, of which there is one result each.
	Reply func(dst []byte, proto int, requests []engine.Request, results []engine.Result) []byte
	// MergeCount returns the integer that Reply writes. It is set for a command that can be split
	// into pieces: its reply is the sum of the replies to the pieces. Otherwise it is nil.
	MergeCount func(results []engine.Result) (int64, error)
	// Nothing returns the error that replaces the reply 0 to the requests of such a command, or "". It is nil if
	// there is none.
	Nothing func(requests []engine.Request) string
	// KeepWords is the number of leading words, including the command's name, that every piece repeats.
	KeepWords int
	// Tied reports whether the command ties what it acquires to the connection. It is nil if the
	// command neither acquires, renews nor releases slots.
	Tied func(args [][]byte) bool
}

// Commands returns all rate limit commands but those that need policies: ByPolicy, HoldByPolicy and Settle.
func Commands() []Command {
	return append(decisions(), reset(), inspect(), reserve(), acquire(), renew(), release())
}

const decisionReply = "Five integers: allowed (1 or 0), limit, remaining (-1: answered by a FAIL policy), " +
	"retry_after and reset_after in milliseconds. With several pairs they describe the pair that " +
	"denied with the longest retry_after, else the one with the least remaining."

// asSlide describes the reply of commands that answer as RL.SLIDE does.
const asSlide = "As [RL.SLIDE](#rlslide)."

// shadowReply follows decisionReply for commands with the option SHADOW.
const shadowReply = " With SHADOW allowed is always 1: a retry_after above 0 says that the request would have " +
	"been denied."

// Arguments that several commands share.
var (
	keyArg = table.Arg{Name: "key", Type: "key", About: "what is limited: 1 to 4096 arbitrary bytes"}
	pairs  = table.Arg{Name: "pair", Type: "block", Multiple: true, Args: []table.Arg{
		{Name: "limit", Type: "integer", About: "the most cost admitted per window, 1 to 1000000000000"},
		{Name: "window", Type: "string",
			About: "seconds, or an integer with `ms`, `s`, `m`, `h` or `d`, from 1ms to 366d; at most 8 pairs, " +
				"each with a different window"},
	}}
	costArg = table.Arg{Name: "n", Type: "integer", Token: "COST", Optional: true,
		About: "0 to the smallest limit; default 1; 0 charges nothing, and the reply is for a cost of 1"}
	idArg = table.Arg{Name: "id", Type: "string", Token: "ID", Optional: true,
		About: "the subject of the request; on a split key it chooses the shard to ask first; it never changes " +
			"the reply"}
	onceArg = table.Arg{Name: "id", Type: "string", Token: "ONCE", Optional: true,
		About: "1 to 64 bytes: for the length of the longest window, the same key and id are charged once, and a " +
			"retry gets the same answer as the request that was admitted; at most 65536 ids per key. " +
			"FAIL LOCAL charges in the proxy and does not remember the id, so a retry may be charged again. COST 0 " +
			"neither finds nor stores an id"}
	shardsArg = table.Arg{Name: "n", Type: "integer", Token: "SHARDS", Optional: true,
		About: "split the key into 1 to 1024 shards, at most as many as the smallest limit"}
	failArg = table.Arg{Name: "fail-policy", Type: "oneof", Token: "FAIL", Optional: true,
		About: "the answer when the key's node does not answer", Args: []table.Arg{
			{Name: "open", Type: "pure-token", Token: "OPEN"},
			{Name: "closed", Type: "pure-token", Token: "CLOSED"},
			{Name: "local", Type: "pure-token", Token: "LOCAL"},
			{Name: "error", Type: "pure-token", Token: "ERROR"},
		}}
	blockArg = table.Arg{Name: "milliseconds", Type: "integer", Token: "BLOCK", Optional: true,
		About: "1 to 3600000: instead of a denial, wait for up to so long until the request is admitted. If " +
			"retry_after is longer than the time left, the denial comes at once. See [waiting](limits.md#waiting)"}
	shadowArg = table.Arg{Name: "shadow", Type: "pure-token", Token: "SHADOW", Optional: true,
		About: "try the limit: decide and charge on a separate state, and deny nothing"}
)

var (
	writes     = []string{"write", "denyoom", "fast"}        // flags of commands that change the state of keys
	writesMany = append(slices.Clone(writes), "movablekeys") // flags of those that may have more keys, after AND
	reads      = []string{"readonly", "fast"}                // flags of commands that change nothing
	oneKey     = table.Keys{First: 1, Last: 1, Step: 1}
)

// replyDecision encodes the reply to RL.SLIDE, RL.COUNTER and RL.FIXED.
func replyDecision(dst []byte, proto int, requests []engine.Request, results []engine.Result) []byte {
	switch {
	case requests[0].Details:
		return replyDetails(dst, proto, requests, results)
	case requests[0].KeyNumber > 0:
		return replyMultiKey(dst, requests, results)
	}
	d, err := Answer(&requests[0], &results[0])
	if err != nil {
		return appendFailure(dst, err)
	}
	allowed := int64(0)
	if d.Allowed {
		allowed = 1
	}
	return appendDecision(dst, allowed, &d)
}

// Answer returns what a client is told of a decision about one key, with its result, or the error that it gets. With
// SHADOW everything is allowed.
func Answer(r *engine.Request, res *engine.Result) (d limit.Decision, err error) {
	d = res.Decision
	switch {
	case r.Shadow && res.Fail != engine.FailDefault:
		d = engine.FailOpen.Decide(r, 0) // whatever the FAIL policy is
	case res.Err != nil:
		return d, res.Err
	}
	d.Allowed = d.Allowed || r.Shadow
	return d, nil
}

func appendDecision(dst []byte, allowed int64, d *limit.Decision) []byte {
	dst = resp.AppendArray(dst, 5)
	dst = resp.AppendInt(dst, allowed)
	dst = resp.AppendInt(dst, d.Limit)
	dst = resp.AppendInt(dst, d.Remaining)
	dst = resp.AppendInt(dst, d.RetryAfter)
	return resp.AppendInt(dst, d.ResetAfter)
}

// appendFailure appends an engine's error, whose text begins with a code.
func appendFailure(dst []byte, err error) []byte {
	return resp.AppendError(dst, err.Error())
}
