package engine

// policyDecision returns what policy p decides about r in place of its node, which
// cannot. retry is the ms after which asking again makes sense, at least 1. The
// policies that decide are PolicyOpen and PolicyClosed.
func policyDecision(r *Request, p Policy, retry int64) Decision {
	d := Decision{Limit: r.Windows[0].Limit, Remaining: -1}
	if r.Op == OpThrottle {
		d.Limit = r.Throttle.limit()
	}
	if p == PolicyOpen {
		d.Allowed = true
		return d
	}
	d.RetryAfter = max(retry, 1)
	d.ResetAfter = d.RetryAfter
	return d
}

// answer fills in what the policy p says to r: a decision, or for PolicyError the
// error that names the node and why it cannot answer.
func (p Policy) answer(r *Request, res *Result, retry int64, node, why string) {
	if p == PolicyError {
		res.Err = &Unavailable{Node: node, Why: why}
		return
	}
	res.Decision = policyDecision(r, p, retry)
}

// or returns p, or other if p says nothing.
func (p Policy) or(other Policy) Policy {
	if p == PolicyDefault {
		return other
	}
	return p
}

// policy is what answers for r: its own choice, else that of the first rule that
// matches its key, else the one given.
func (r *Request) policy(rules []PolicyRule, other Policy) Policy {
	if r.Fail != PolicyDefault {
		return r.Fail
	}
	for _, rule := range rules {
		if matches(rule.Glob, r.Key) {
			return rule.Policy
		}
	}
	return other
}
