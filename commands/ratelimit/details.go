package ratelimit

import (
	"github.com/rlproxy/rlproxy/commands/table"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/resp"
	"github.com/rlproxy/rlproxy/shard"
)

// The option DETAILS of RL.CHECK: the reply is a map that says what a caller cannot know who only names a policy, and
// which key denies. Nothing else of the request changes.

var detailsArg = table.Arg{Name: "details", Type: "pure-token", Token: "DETAILS", Optional: true,
	About: "reply with a map, which also says which policy, key and window the figures are about, and what HTTP " +
		"headers to send. After any of the keys of AND, it is about all of them"}

const detailsReply = " With DETAILS: a map (flat in RESP2) of allowed, policy, key, limit, window-ms, remaining, " +
	"retry-after-ms, reset-after-ms and headers, a map of the names and values of the HTTP headers to send. All are " +
	"about the window that plain replies are about: with AND, about the key that denied with the longest " +
	"retry_after, else the one with the least remaining, and of equal ones the first. A key with SHADOW is left out, " +
	"unless all have it. With AND there is also keys, an array of maps from policy to reset-after-ms, one for each " +
	"key in order. window-ms is 0 for a key without a limit, and if ONCE repeats an answer about a window that the " +
	"policy no longer has."

// replyDetails encodes the reply to an RL.CHECK with DETAILS.
func replyDetails(dst []byte, proto int, requests []engine.Request, results []engine.Result) []byte {
	allowed, err := verdictOf(requests, results)
	if err != nil {
		return appendFailure(dst, err)
	}
	r, d := decidingKey(requests, results, allowed == 1)
	fields := 2 + keyFields
	if len(requests) > 1 {
		fields++
	}
	dst = resp.AppendMap(dst, proto, fields)
	dst = appendField(dst, "allowed", allowed)
	dst = appendKey(dst, r, &d)
	d.Allowed = allowed == 1
	headers := Headers(requests, r, &d)
	dst = resp.AppendMap(resp.AppendBulkString(dst, "headers"), proto, len(headers))
	for _, h := range headers {
		dst = resp.AppendBulkString(resp.AppendBulkString(dst, h[0]), h[1])
	}
	if len(requests) == 1 {
		return dst
	}
	dst = resp.AppendArray(resp.AppendBulkString(dst, "keys"), len(requests))
	for place := range requests {
		r, d := keyDecision(requests, results, place)
		dst = appendKey(resp.AppendMap(dst, proto, keyFields), r, &d)
	}
	return dst
}

// decidingKey returns the request that the figures of DETAILS are about, and its decision.
func decidingKey(requests []engine.Request, results []engine.Result, allowed bool) (of *engine.Request,
	d limit.Decision) {
	for place := range requests {
		r, next := keyDecision(requests, results, place)
		var closer bool
		switch {
		case of == nil || of.Shadow != r.Shadow:
			closer = of == nil || of.Shadow
		case !allowed:
			closer = next.RetryAfter > d.RetryAfter
		case of.N == 0 || r.N == 0: // an unlimited key
			closer = of.N == 0 && r.N > 0
		default:
			closer = next.Remaining < d.Remaining
		}
		if closer {
			of, d = r, next
		}
	}
	return of, d
}

const keyFields = 7 // of appendKey

// appendKey appends what DETAILS says of a key.
func appendKey(dst []byte, r *engine.Request, d *limit.Decision) []byte {
	key, _ := shard.ClientKey(r.Key)
	length := int64(0)
	if d.Window < r.N { // not of a key without a limit
		length = r.Windows[d.Window].Ms()
	}
	dst = resp.AppendBulkString(resp.AppendBulkString(dst, "policy"), r.Policy)
	dst = resp.AppendBulk(resp.AppendBulkString(dst, "key"), key[len(r.Policy)+1:])
	dst = appendField(dst, "limit", d.Limit)
	dst = appendField(dst, "window-ms", length)
	dst = appendField(dst, "remaining", d.Remaining)
	dst = appendField(dst, "retry-after-ms", d.RetryAfter)
	return appendField(dst, "reset-after-ms", d.ResetAfter)
}
