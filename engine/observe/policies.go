package observe

import (
	"hash/maphash"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/engine/limit"
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

// policies has the counts of each policy, from its first decision on. It is a hash table that
// only grows, so that nothing waits for a lock.
type policies struct {
	seed maphash.Seed
	// A policy has the first free place from its hash on; nil: free.
	places [2 * maxPolicies]atomic.Pointer[policyCounts]
	taken  atomic.Int64 // The places taken or about to be, at most maxPolicies.
	others Counts       // The counts of OtherPolicies.
}

type policyCounts struct {
	name string
	Counts
}

// of returns the counts of a policy.
func (p *policies) of(name string) *Counts {
	for i := maphash.String(p.seed, name); ; i++ {
		place := &p.places[i%uint64(len(p.places))]
		c := place.Load()
		if c == nil {
			c = p.take(place, name)
		}
		switch {
		case c == nil:
			return &p.others
		case c.name == name:
			return &c.Counts
		}
	}
}

// take takes a place that was free for a policy, and returns what has it now, which may be
// another policy. It returns nil if too many places are taken.
func (p *policies) take(place *atomic.Pointer[policyCounts], name string) *policyCounts {
	if p.taken.Load() >= maxPolicies {
		return nil
	}
	// the name may be part of a long text
	if p.taken.Add(1) <= maxPolicies && place.CompareAndSwap(nil, &policyCounts{name: strings.Clone(name)}) {
		return place.Load()
	}
	p.taken.Add(-1)
	return place.Load()
}

// Counts returns all counts, each with the name of the policy whose limits decided: first
// those of limits that commands brought, whose name is empty. The policies have no order.
func (o *Observer) Counts() iter.Seq2[string, *Counts] {
	return func(yield func(string, *Counts) bool) {
		if !yield("", &o.counts) || !yield(OtherPolicies, &o.policies.others) {
			return
		}
		for i := range o.policies.places {
			if c := o.policies.places[i].Load(); c != nil && !yield(c.name, &c.Counts) {
				return
			}
		}
	}
}
