package shard

import "slices"

// mutant breaks one rule of the protocol, from outside: its hooks run before a part is
// asked, before the home decides, before a part takes a loan, and before and after a
// part is recalled.
type mutant struct {
	name          string
	seed          uint64 // of a history that shows it, to be tried first
	part          func(part *node, a *Ask)
	home          func(home *node, q *Question)
	take          func(part *node, l *Loan)
	recall        func(part *node, r *Recall)
	report        func(part *node, held []int64, r *Report)
	joinLate      bool // an ask waits for a reading that is under way
	resetHomeOnly bool // a reset forgets at home and lets parts keep their rights
}

// sound is the protocol as it is.
func sound() mutant {
	return mutant{
		part:   func(*node, *Ask) {},
		home:   func(*node, *Question) {},
		take:   func(*node, *Loan) {},
		recall: func(*node, *Recall) {},
		report: func(*node, []int64, *Report) {},
	}
}

// mutants are the protocol without one of its rules each.
func mutants() []mutant {
	var all []mutant
	broken := func(name string, seed uint64, change func(m *mutant)) {
		m := sound()
		m.name, m.seed = name, seed
		change(&m)
		all = append(all, m)
	}
	broken("a part admits after its lease", 1, func(m *mutant) {
		m.part = func(part *node, _ *Ask) {
			if part.part.Lease > 0 {
				part.part.Lease = part.clock() + 1
			}
		}
	})
	broken("a part serves callers of other limits", 12, func(m *mutant) {
		m.part = func(part *node, a *Ask) {
			if len(part.part.Pairs) == len(a.Pairs) {
				part.part.Pairs = a.Pairs
			}
		}
	})
	broken("a part takes loans in any order", 3, func(m *mutant) {
		m.take = func(part *node, l *Loan) { part.part.Seq = min(part.part.Seq, l.Seq-1) }
	})
	broken("a part takes loans however late", 108, func(m *mutant) {
		m.take = func(part *node, l *Loan) { l.Clock = part.clock() }
	})
	broken("a loan is good for any record", 310, func(m *mutant) {
		m.take = func(part *node, l *Loan) {
			if part.part.Born == 0 {
				part.part.Born = part.clock()
			}
			l.Born = part.part.Born
		}
	})
	broken("a recall does not void loans on their way", 3, func(m *mutant) {
		seq := int64(0)
		m.recall = func(part *node, _ *Recall) { seq = part.part.Seq }
		m.report = func(part *node, _ []int64, _ *Report) { part.part.Seq = seq }
	})
	broken("a recall leaves what is held", 1, func(m *mutant) {
		m.report = func(part *node, held []int64, _ *Report) { copy(part.part.Held, held) }
	})
	broken("a recall for other limits leaves the lease", 122, func(m *mutant) {
		m.recall = func(_ *node, r *Recall) { r.Close = false }
		m.report = func(_ *node, _ []int64, r *Report) { r.Over = true }
	})
	broken("a part that lost its memory reports that it used nothing", 13, func(m *mutant) {
		m.home = func(home *node, q *Question) {
			for i := range q.Reports {
				r := &q.Reports[i]
				if l := home.home.find(r.Part); l >= 0 && r.Born != home.home.Lent[l].Born {
					r.Born = home.home.Lent[l].Born
					r.Used = nil
					for _, out := range home.home.Lent[l].Out {
						r.Used = append(r.Used, Units{out.State, 0})
					}
				}
			}
		}
	})
	broken("the home takes reports older than the newest loan", 3, func(m *mutant) {
		m.home = func(home *node, q *Question) {
			for i := range q.Reports {
				if l := home.home.find(q.Reports[i].Part); l >= 0 {
					q.Reports[i].Seq = max(q.Reports[i].Seq, home.home.Lent[l].Seq)
				}
			}
		}
	})
	broken("the home forgets a loan at the end of its lease", 2, func(m *mutant) {
		m.home = func(home *node, _ *Question) {
			home.home.Lent = slices.DeleteFunc(home.home.Lent, func(l Lent) bool {
				return home.clock() > l.Seq/1000+home.w.rules.Lease
			})
		}
	})
	broken("the home forgets a loan a window after it was made", 2, func(m *mutant) {
		m.home = func(home *node, _ *Question) {
			home.home.Lent = slices.DeleteFunc(home.home.Lent, func(l Lent) bool {
				return !slices.ContainsFunc(l.Out, func(u Units) bool { return home.clock() <= l.Seq/1000+u.Life() })
			})
		}
	})
	broken("leases of other limits do not hold a limit down", 37, func(m *mutant) {
		m.home = func(home *node, q *Question) { home.home.Pairs = q.Ask.Pairs }
	})
	broken("the home denies without reading", 1, func(m *mutant) {
		m.home = func(home *node, q *Question) {
			for _, l := range home.home.Lent {
				q.Away = append(q.Away, l.Part)
			}
		}
	})
	broken("an ask waits for a reading that is under way", 2, func(m *mutant) { m.joinLate = true })
	broken("a reset leaves parts their rights", 4, func(m *mutant) { m.resetHomeOnly = true })
	return all
}
