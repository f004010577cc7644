package engine

import (
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/glob"
)

// Policy is what to answer when a key's node cannot answer in time.
type Policy uint8

// The policies. PolicyDefault is the configuration's choice.
const (
	PolicyDefault Policy = iota
	PolicyClosed         // deny until the node's next probe
	PolicyOpen           // admit
	PolicyLocal          // ask the embedded engine
	PolicyError          // the error UNAVAILABLE
)

// Policies is the number of policies, PolicyDefault included: the length of an
// array that counts by policy.
const Policies = int(PolicyError) + 1

// String returns the policy's name in INFO and in the log.
func (p Policy) String() string {
	return [Policies]string{"default", "closed", "open", "local", "error"}[p]
}

// PolicyRule gives keys that match Glob a policy.
type PolicyRule struct {
	Glob   string
	Policy Policy
}

// PolicyFor returns what answers for r: its own choice, else that of the first rule
// that matches its key, else the one given.
func (r *Request) PolicyFor(rules []PolicyRule, other Policy) Policy {
	if r.Fail != PolicyDefault {
		return r.Fail
	}
	for _, rule := range rules {
		if glob.MatchWild(rule.Glob, r.Key) {
			return rule.Policy
		}
	}
	return other
}

// Decide returns what the policy decides about r in place of its node, which
// cannot. retry is the ms after which asking again makes sense, at least 1. The
// policies that decide are PolicyOpen and PolicyClosed.
func (p Policy) Decide(r *Request, retry int64) limit.Decision {
	d := limit.Decision{Limit: r.Windows[0].Limit, Remaining: -1}
	if p == PolicyOpen {
		d.Allowed = true
		return d
	}
	d.RetryAfter = max(retry, 1)
	d.ResetAfter = d.RetryAfter
	return d
}
