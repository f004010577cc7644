package hold

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// mutant breaks one rule of the arithmetic.
type mutant struct {
	name          string
	chargeAt      func(at, now int64) int64                                                                // Changes the ms of a charge; below 0, there is none.
	before        func(k *subject, now int64, r *engine.Request)                                           // Runs before a request with an id.
	held          func(k *subject, now int64, r *engine.Request)                                           // Runs after units were held, or charged once.
	settles       func(k *subject, now int64, r *engine.Request) (after func(done engine.Settlement))      // Runs before a settle.
	denied        func(k *subject, clock, now int64, r *engine.Request, us *[limit.MaxWindows]limit.Usage) // Runs after a denial.
	ignoresHeld   bool                                                                                     // Ordinary requests do not count what is held.
	forgetsNewest bool                                                                                     // Requests with an id go by the newest charge or hold alone.
}

// sound returns the mutant that breaks nothing.
func sound() *mutant {
	return &mutant{
		chargeAt: func(at, _ int64) int64 { return at },
		before:   func(*subject, int64, *engine.Request) {},
		held:     func(*subject, int64, *engine.Request) {},
		settles: func(*subject, int64, *engine.Request) func(engine.Settlement) {
			return func(engine.Settlement) {}
		},
		denied: func(*subject, int64, int64, *engine.Request, *[limit.MaxWindows]limit.Usage) {},
	}
}

// mutants returns a mutant for each rule.
func mutants() []*mutant {
	var all []*mutant
	broken := func(name string, change func(m *mutant)) {
		m := sound()
		m.name = name
		change(m)
		all = append(all, m)
	}
	broken("what lapses is charged when it is taken", func(m *mutant) {
		m.chargeAt = func(_, now int64) int64 { return now }
	})
	broken("what lapses is always forgotten", func(m *mutant) {
		m.chargeAt = func(at, now int64) int64 {
			if at < now {
				return -1
			}
			return at
		}
	})
	broken("what is released counts for a ms longer", func(m *mutant) {
		m.held = func(k *subject, _ int64, r *engine.Request) {
			if h := k.outOf(r); h != nil && h.release {
				k.move(h, h.at+1)
			}
		}
	})
	broken("a deadline is rounded down", func(m *mutant) {
		m.held = func(k *subject, now int64, r *engine.Request) {
			if h := k.outOf(r); h != nil {
				for h.at > now+r.Hold.TTL && h.at-1 > now {
					k.move(h, h.at-1)
				}
			}
		}
	})
	broken("a settle gives back twice", func(m *mutant) {
		m.settles = func(k *subject, _ int64, r *engine.Request) func(engine.Settlement) {
			h := k.outOf(r)
			return func(done engine.Settlement) {
				if h == nil || !done.Settled {
					return
				}
				if s := h.spec(); k.book.has(&s, h) {
					for _, w := range h.windows {
						k.book.findWindow(&s, w.Length).Remove(h.at, h.units, h.release)
					}
					k.book.tidy()
				}
			}
		}
	})
	broken("a settle gives back in the first window only", func(m *mutant) {
		m.settles = func(k *subject, now int64, r *engine.Request) func(engine.Settlement) {
			h := k.outOf(r)
			return func(done engine.Settlement) {
				if h != nil && done.Settled {
					k.add(now, h, h.windows[1:])
				}
			}
		}
	})
	broken("a settle gives nothing back", func(m *mutant) {
		m.settles = func(k *subject, _ int64, r *engine.Request) func(engine.Settlement) {
			if h := k.outOf(r); h != nil && r.Cost < h.units {
				r.Cost = h.units
			}
			return func(engine.Settlement) {}
		}
	})
	broken("an overrun is not charged", func(m *mutant) {
		m.settles = func(k *subject, _ int64, r *engine.Request) func(engine.Settlement) {
			if h := k.outOf(r); h != nil {
				r.Cost = min(r.Cost, h.units)
			}
			return func(engine.Settlement) {}
		}
	})
	broken("a settle is taken at the deadline", func(m *mutant) {
		m.settles = func(k *subject, now int64, r *engine.Request) func(engine.Settlement) {
			if e := k.book.ids.all[nameOf(r)]; e != nil && e.until == now && k.outOf(r) != nil {
				k.move(e.hold, now+1)
				e.until++
			}
			return func(engine.Settlement) {}
		}
	})
	broken("a settle that comes again is forgotten", func(m *mutant) {
		m.settles = func(k *subject, _ int64, r *engine.Request) func(engine.Settlement) {
			return func(engine.Settlement) {
				if e := k.book.ids.all[nameOf(r)]; e != nil && e.hold.settled {
					k.book.ids.drop(e)
				}
			}
		}
	})
	broken("an id that comes again holds again", func(m *mutant) {
		m.before = func(k *subject, _ int64, r *engine.Request) {
			if e := k.book.ids.all[nameOf(r)]; e != nil {
				k.book.ids.drop(e)
			}
		}
	})
	broken("an id of ONCE is forgotten a ms early", func(m *mutant) {
		m.held = func(k *subject, now int64, r *engine.Request) {
			if e := k.book.ids.all[nameOf(r)]; r.Hold.Once {
				k.book.ids.keep(now, e, e.until-1)
			}
		}
	})
	broken("a renewal revives", func(m *mutant) {
		m.before = func(k *subject, now int64, r *engine.Request) {
			if e := k.book.ids.all[idName{slots, r.Hold.ID}]; e != nil && e.until <= now && len(k.book.windows) > 0 {
				k.move(e.hold, now+1)
				e.until = now + 1
			}
		}
	})
	broken("held units are not counted", func(m *mutant) { m.ignoresHeld = true })
	broken("what has ended comes back with the clock", func(m *mutant) { m.forgetsNewest = true })
	broken("retry_after speaks of charges only", func(m *mutant) {
		m.denied = func(k *subject, clock, now int64, r *engine.Request, us *[limit.MaxWindows]limit.Usage) {
			for i, w := range r.Limits() {
				view := Window{Window: w, State: k.Find(&r.Spec, w.Length)}
				if us[i].Room = 0; view.State == nil {
					continue
				}
				if reading := view.Read(now, &r.Spec); reading.Used > w.Limit-r.Wanted() {
					us[i].Room = view.RoomAt(now, w.Limit-r.Wanted(), &r.Spec, reading) - clock
				}
			}
		}
	})
	return all
}

// outOf returns the hold of a request's id if it is out.
func (k *subject) outOf(r *engine.Request) *holdRecord {
	e := k.book.ids.all[nameOf(r)]
	if e == nil || e.hold == nil || e.hold.settled {
		return nil
	}
	return e.hold
}

// move changes the deadline of a hold.
func (k *subject) move(h *holdRecord, at int64) {
	s := h.spec()
	if !k.book.has(&s, h) {
		return
	}
	for _, w := range h.windows {
		c := k.book.findWindow(&s, w.Length)
		c.Remove(h.at, h.units, h.release)
		c.Add(c.Last(), c.limit, at, h.units, h.release)
	}
	h.at = at
}

// add holds the units of h in some windows.
func (k *subject) add(now int64, h *holdRecord, windows []limit.Window) {
	for _, w := range windows {
		s := h.spec()
		to := k.book.findWindow(&s, w.Length)
		if to == nil {
			to = &heldWindow{kind: h.kind, length: w.Length, buckets: h.buckets}
			k.book.windows = append(k.book.windows, to)
		}
		to.Add(now, w.Limit, h.at, h.units, h.release)
	}
}

// Every rule is needed: without it, some history gets another answer than the model's.
func TestMutantsAreCaught(t *testing.T) {
	t.Parallel()
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			caught := ""
			for seed := uint64(1); seed < 40 && caught == ""; seed++ {
				caught = newMachine(seed, m).run(20_000)
				if caught != "" {
					t.Logf("seed %d: %s", seed, caught)
				}
			}
			require.NotEmpty(t, caught)
		})
	}
}
