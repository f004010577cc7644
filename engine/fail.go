package engine

import (
	"strings"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/glob"
	"github.com/rlproxy/rlproxy/shard"
)

// FailPolicy says what to answer when a key's node cannot answer in time.
type FailPolicy uint8

// The FAIL policies. FailDefault is the configuration's choice.
const (
	FailDefault FailPolicy = iota
	FailClosed             // deny, with a short retry_after: until the node is probed, or memory swept, again
	FailOpen               // admit
	FailLocal              // decide by the embedded engine
	FailError              // the error UNAVAILABLE
)

// FailPolicies is the number of FAIL policies, FailDefault included: the length of an
// array that counts by FAIL policy.
const FailPolicies = int(FailError) + 1

var failPolicies = [FailPolicies]string{"default", "closed", "open", "local", "error"}

// String returns the name in INFO and in the log.
func (p FailPolicy) String() string { return failPolicies[p] }

// ParseFailPolicy returns the FAIL policy with that name, in any case. It returns false for any
// other word, and for "default".
func ParseFailPolicy[S string | []byte](name S) (FailPolicy, bool) {
	for p := FailClosed; p <= FailError; p++ {
		if len(name) == len(failPolicies[p]) && strings.EqualFold(string(name), failPolicies[p]) {
			return p, true
		}
	}
	return FailDefault, false
}

// FailRule gives keys that match Glob a FAIL policy.
type FailRule struct {
	Glob string
	Fail FailPolicy
}

// FailPolicyFor returns the FAIL policy of r: its own, else that of the first rule that
// matches the client's key, else other.
func (r *Request) FailPolicyFor(rules []FailRule, other FailPolicy) FailPolicy {
	if r.Fail != FailDefault {
		return r.Fail
	}
	key, _ := shard.ClientKey(r.Key)
	for _, rule := range rules {
		if glob.Match(rule.Glob, key) {
			return rule.Fail
		}
	}
	return other
}

// Decide returns the FAIL policy's decision about r in place of its node. retry is the ms
// after which a retry makes sense, at least 1. It is FailOpen or FailClosed.
func (p FailPolicy) Decide(r *Request, retry int64) limit.Decision {
	d := limit.Decision{Limit: r.Windows[0].Limit, Remaining: -1}
	if p == FailOpen {
		d.Allowed = true
		return d
	}
	d.RetryAfter = max(retry, 1)
	d.ResetAfter = d.RetryAfter
	return d
}

// FailAll answers a multi-key request whose request i was answered by a FAIL policy or with an error: the others get
// the same error, or are answered by fail with the same FAIL policy. To fail, failed is request i.
func FailAll(fail func(r, failed *Request, res *Result), requests []Request, results []Result, i int) {
	first := results[i]
	allowed := true
	for j := range requests {
		switch res := &results[j]; {
		case first.Err != nil:
			*res = Result{Fail: first.Fail, Err: first.Err}
		case j != i && res.Fail != first.Fail:
			r := requests[j]
			r.MoreKeys, r.Fail = 0, first.Fail
			*res = Result{}
			fail(&r, &requests[i], res)
			if first.Fail == FailClosed { // the others wait for the same node
				res.RetryAfter, res.ResetAfter = first.RetryAfter, first.ResetAfter
			}
		}
		allowed = allowed && results[j].Allowed
	}
	if allowed {
		return
	}
	for j := range results {
		if d := &results[j].Decision; d.Allowed {
			d.Allowed, d.RetryAfter = false, 0
		}
	}
}
