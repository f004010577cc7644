package model

import (
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// mutant breaks one rule of the protocol, by hooks around its steps.
type mutant struct {
	name          string
	seed          uint64                                       // Seed to try first: its history is known to catch the mutant.
	admit         func(n *node, d *lease.Demand)               // Runs before a shard gets a demand.
	decide        func(n *node, q *lease.HomeRequest)          // Runs before the home decides.
	take          func(n *node, l *lease.Loan)                 // Runs before a shard takes a loan.
	recall        func(n *node, r *lease.Recall)               // Runs before a shard gets a recall.
	report        func(n *node, held []int64, r *lease.Report) // Runs after a recall; held is from before it.
	joinLate      bool                                         // A demand joins a round of recalls that is under way.
	resetHomeOnly bool                                         // A reset does not reach the shards.
}

// sound returns hooks that break nothing.
func sound() mutant {
	return mutant{
		admit:  func(*node, *lease.Demand) {},
		decide: func(*node, *lease.HomeRequest) {},
		take:   func(*node, *lease.Loan) {},
		recall: func(*node, *lease.Recall) {},
		report: func(*node, []int64, *lease.Report) {},
	}
}

// mutants returns a mutant for each rule of the protocol.
func mutants() []mutant {
	var all []mutant
	broken := func(name string, seed uint64, change func(m *mutant)) {
		m := sound()
		m.name, m.seed = name, seed
		change(&m)
		all = append(all, m)
	}
	broken("a shard admits after its lease", 1, func(m *mutant) {
		m.admit = func(n *node, _ *lease.Demand) {
			if n.shard.LeaseEnds > 0 {
				n.shard.LeaseEnds = n.clock() + 1
			}
		}
	})
	broken("a shard serves callers of other limits", 12, func(m *mutant) {
		m.admit = func(n *node, d *lease.Demand) {
			if len(n.shard.Pairs) == len(d.Pairs) {
				n.shard.Pairs = d.Pairs
			}
		}
	})
	broken("a shard takes loans in any order", 3, func(m *mutant) {
		m.take = func(n *node, l *lease.Loan) { n.shard.Seq = min(n.shard.Seq, l.Seq-1) }
	})
	broken("a shard takes a loan that is older than a lease", 108, func(m *mutant) {
		m.take = func(n *node, l *lease.Loan) { l.Clock = n.clock() }
	})
	broken("a loan is good for any incarnation", 310, func(m *mutant) {
		m.take = func(n *node, l *lease.Loan) {
			if n.shard.Incarnation == 0 {
				n.shard.Incarnation = n.clock()
			}
			l.Incarnation = n.shard.Incarnation
		}
	})
	broken("a recall does not void a loan on its way", 3, func(m *mutant) {
		seq := int64(0)
		m.recall = func(n *node, _ *lease.Recall) { seq = n.shard.Seq }
		m.report = func(n *node, _ []int64, _ *lease.Report) { n.shard.Seq = seq }
	})
	broken("a recall returns nothing", 1, func(m *mutant) {
		m.report = func(n *node, held []int64, _ *lease.Report) { copy(n.shard.Held, held) }
	})
	broken("a recall for other limits does not end the lease", 122, func(m *mutant) {
		m.recall = func(_ *node, r *lease.Recall) { r.EndLease = false }
		m.report = func(_ *node, _ []int64, r *lease.Report) { r.LeaseEnded = true }
	})
	broken("a shard that lost its memory reports that it used nothing", 13, func(m *mutant) {
		m.decide = func(n *node, q *lease.HomeRequest) {
			for i := range q.Reports {
				r := &q.Reports[i]
				if l := n.home.find(r.Shard); l >= 0 && r.Incarnation != n.home.Lent[l].Incarnation {
					r.Incarnation = n.home.Lent[l].Incarnation
					r.Used = nil
					for _, out := range n.home.Lent[l].Out {
						r.Used = append(r.Used, lease.Units{StateName: out.StateName, N: 0})
					}
				}
			}
		}
	})
	broken("the home accepts reports older than the newest loan", 3, func(m *mutant) {
		m.decide = func(n *node, q *lease.HomeRequest) {
			for i := range q.Reports {
				if l := n.home.find(q.Reports[i].Shard); l >= 0 {
					q.Reports[i].Seq = max(q.Reports[i].Seq, n.home.Lent[l].Seq)
				}
			}
		}
	})
	broken("the home forgets a loan at the end of its lease", 2, func(m *mutant) {
		m.decide = func(n *node, _ *lease.HomeRequest) {
			n.home.Lent = slices.DeleteFunc(n.home.Lent, func(l Lent) bool {
				return n.clock() > l.Seq/1000+n.w.rules.Lease
			})
		}
	})
	broken("the home forgets a loan a window after it was made", 2, func(m *mutant) {
		m.decide = func(n *node, _ *lease.HomeRequest) {
			n.home.Lent = slices.DeleteFunc(n.home.Lent, func(l Lent) bool {
				return !slices.ContainsFunc(l.Out, func(u lease.Units) bool { return n.clock() <= l.Seq/1000+u.Life() })
			})
		}
	})
	broken("leases on other limits do not lower a limit", 38, func(m *mutant) {
		m.decide = func(n *node, q *lease.HomeRequest) { n.home.Pairs = q.Demand.Pairs }
	})
	broken("the home denies without recalls", 1, func(m *mutant) {
		m.decide = func(n *node, q *lease.HomeRequest) {
			for _, l := range n.home.Lent {
				q.Unreachable = append(q.Unreachable, l.Shard)
			}
		}
	})
	broken("a demand joins a round of recalls that is under way", 2, func(m *mutant) { m.joinLate = true })
	broken("a reset leaves the shards their rights", 4, func(m *mutant) { m.resetHomeOnly = true })
	return all
}

// Every rule is needed: without it there is a history that breaks the promise, and the
// simulation finds it.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			caught := ""
			for seed := m.seed; seed < m.seed+2000 && caught == ""; seed++ {
				w, _ := chaos(seed, m)
				w.run(20_000)
				if len(w.broken) > 0 {
					caught = w.broken[0]
					t.Logf("seed %d: %s", seed, caught)
				}
			}
			require.NotEmpty(t, caught)
		})
	}
}
