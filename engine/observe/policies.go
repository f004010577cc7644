package observe

import (
	"iter"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/named"
)

// maxPolicies is the most policies whose decisions are counted separately: as many as there may be
// at a time. Those that were deleted keep their counts, so that no count ever falls.
const maxPolicies = 4096

// OtherPolicies stands for all policies beyond the first maxPolicies that were asked. No
// policy can have this name.
const OtherPolicies = "(other)"

// Counts is how many decisions there were, by command and outcome.
type Counts struct {
	n [limit.Kinds][Outcomes]atomic.Int64 // by Command
}

// Of returns how many decisions of a command had an outcome.
func (c *Counts) Of(by Command, outcome Outcome) int64 { return c.n[by][outcome].Load() }

// policies has the counts of each policy, from its first decision on.
type policies struct {
	counts named.Map[Counts]
	others Counts // The counts of OtherPolicies.
}

func (p *policies) of(name string) *Counts {
	if c := p.counts.Add(name, maxPolicies); c != nil {
		return c
	}
	return &p.others
}

// Counts returns all counts, each with the name of the policy whose limits decided: first
// those of limits that commands brought, whose name is empty, and those of OtherPolicies.
func (o *Observer) Counts() iter.Seq2[string, *Counts] {
	return func(yield func(string, *Counts) bool) {
		if yield("", &o.counts) && yield(OtherPolicies, &o.policies.others) {
			o.policies.counts.All()(yield)
		}
	}
}
