package model

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine/advance"
)

// mutant breaks one rule, by hooks around the steps.
type mutant struct {
	name    string
	seed    uint64                                                                     // the first to try: its history is known to catch the mutant
	instant func(advance.Instant) advance.Instant                                      // what a proxy reads of its clocks
	request func(p *proxy, i int, cost int64) bool                                     // whether a proxy admits a request from memory
	about   func(p *proxy, i int, c *advance.Message)                                  // before a proxy sends an account
	decide  func(w *world, q *Ask)                                                     // before the home decides
	after   func(w *world, q *Ask, a *Decided)                                         // when the home has decided
	end     func(p *proxy, c advance.Message, sent *advance.Instant, t *advance.Terms) // before a proxy takes an answer
	reset   func(w *world)                                                             // after a reset
	deaf    bool                                                                       // proxies ignore recalls
}

// sound returns hooks that break nothing.
func sound() *mutant {
	return &mutant{
		instant: func(i advance.Instant) advance.Instant { return i },
		request: func(p *proxy, i int, cost int64) bool { return p.key(i).Request(p.instant(), cost) },
		about:   func(*proxy, int, *advance.Message) {},
		decide:  func(*world, *Ask) {},
		after:   func(*world, *Ask, *Decided) {},
		end:     func(*proxy, advance.Message, *advance.Instant, *advance.Terms) {},
		reset:   func(*world) {},
	}
}

// mutants returns a mutant for each rule.
func mutants() []*mutant {
	var all []*mutant
	broken := func(name string, seed uint64, change func(m *mutant)) {
		m := sound()
		m.name, m.seed = name, seed
		change(m)
		all = append(all, m)
	}
	// find returns the advance that an account is about, if it has not been applied.
	find := func(w *world, q *Ask) *out {
		for i := range w.home.advanced {
			if o := &w.home.advanced[i]; q.Account != nil && o.proxy == q.Proxy && o.number == q.Account.Number {
				return o
			}
		}
		return nil
	}
	broken("a proxy counts time from the answer and not from the call", 123, func(m *mutant) {
		m.end = func(p *proxy, _ advance.Message, sent *advance.Instant, _ *advance.Terms) { *sent = p.instant() }
	})
	broken("a proxy takes the node's clock for slower", 156, func(m *mutant) {
		m.end = func(_ *proxy, _ advance.Message, _ *advance.Instant, t *advance.Terms) { t.Clock -= 2 }
	})
	broken("a proxy goes by its monotonic clock alone", 594, func(m *mutant) {
		m.instant = func(i advance.Instant) advance.Instant {
			return advance.Instant{Monotonic: i.Monotonic, Wall: i.Monotonic}
		}
	})
	broken("a proxy goes by its wall clock alone", 739, func(m *mutant) {
		m.instant = func(i advance.Instant) advance.Instant { return advance.Instant{Monotonic: i.Wall, Wall: i.Wall} }
	})
	broken("a proxy draws for requests with other limits", 8, func(m *mutant) {
		m.request = func(p *proxy, i int, cost int64) bool {
			if p.key(i).Request(p.instant(), cost) {
				return true
			}
			for j, k := range p.keys {
				if j != i && k.Draw(p.instant(), cost) {
					return true
				}
			}
			return false
		}
	})
	broken("a proxy takes an advance for new although it draws from what it kept", 83, func(m *mutant) {
		m.end = func(p *proxy, c advance.Message, _ *advance.Instant, t *advance.Terms) {
			for _, k := range p.keys {
				if c.Account != nil && t.Number != 0 && k.Number() == c.Account.Number {
					t.Units += c.Account.Keep - k.Left()
				}
			}
		}
	})
	broken("an account that is sent again says more", 1, func(m *mutant) {
		m.about = func(p *proxy, i int, c *advance.Message) {
			if c.Account != nil && p.w.rng.IntN(2) == 0 {
				c.Account.Draws = append(c.Account.Draws[:len(c.Account.Draws):len(c.Account.Draws)], advance.Draw{At: 1 << 50, Units: 0})
				for n := range c.Account.Draws {
					c.Account.Draws[n].Units /= 2
				}
			}
		}
	})
	broken("draws are dated before they were", 1, func(m *mutant) {
		m.decide = func(w *world, q *Ask) {
			if find(w, q) != nil {
				for n := range q.Account.Draws {
					q.Account.Draws[n].At = min(q.Account.Draws[n].At, w.clock()) - 30
				}
			}
		}
	})
	broken("the home applies an account twice", 161, func(m *mutant) {
		m.decide = func(w *world, q *Ask) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; q.Account != nil && o.proxy == q.Proxy && o.before == q.Account.Number {
					o.number, o.before = q.Account.Number, 0
				}
			}
		}
	})
	broken("the home forgets what is kept", 1, func(m *mutant) {
		keep := int64(0)
		m.decide = func(w *world, q *Ask) {
			if keep = 0; find(w, q) != nil {
				keep = q.Account.Keep
			}
		}
		m.after = func(w *world, q *Ask, _ *Decided) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; keep > 0 && o.proxy == q.Proxy && o.before == q.Account.Number {
					o.units -= keep
				}
			}
		}
	})
	broken("a lapse charges nothing", 1, func(m *mutant) {
		m.decide = func(w *world, _ *Ask) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; o.deadline <= w.clock() {
					o.units = 0
				}
			}
		}
	})
	broken("a lapse charges as of the beginning", 50, func(m *mutant) {
		m.decide = func(w *world, _ *Ask) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; o.deadline <= w.clock() {
					o.deadline -= o.span
				}
			}
		}
	})
	broken("an advance lasts beyond a calendar window", 6, func(m *mutant) {
		m.after = func(w *world, q *Ask, a *Decided) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; o.number == a.Terms.Number && o.spec[0].Algorithm == Calendar {
					o.deadline, a.Terms.Deadline = o.deadline+100, a.Terms.Deadline+100
				}
			}
		}
	})
	broken("an advance lapses early", 144, func(m *mutant) {
		m.decide = func(w *world, _ *Ask) {
			for i := range w.home.advanced {
				if o := &w.home.advanced[i]; o.deadline <= w.clock()+20 && o.units > 0 {
					w.home.charge(o.spec, w.clock(), o.units)
					o.units = 0
				}
			}
		}
	})
	broken("advances of other limits are not counted", 35, func(m *mutant) {
		var others []out
		m.decide = func(w *world, q *Ask) {
			others = nil
			w.home.lapse(w.clock())
			w.home.advanced = deleteFunc(w.home.advanced, func(o out) bool { return !equal(o.spec, q.Bounds) }, &others)
		}
		m.after = func(w *world, _ *Ask, _ *Decided) { w.home.advanced = append(w.home.advanced, others...) }
	})
	broken("the home admits past the limits of advances", 2455, func(m *mutant) {
		var specs []Bounds
		m.decide = func(w *world, q *Ask) {
			w.home.lapse(w.clock())
			specs = nil
			for i := range w.home.advanced {
				o := &w.home.advanced[i]
				specs = append(specs, o.spec)
				if !equal(o.spec, q.Bounds) {
					o.spec = slices.Clone(o.spec)
					for j := range o.spec {
						o.spec[j].Limit = 1 << 40
					}
				}
			}
		}
		m.after = func(w *world, _ *Ask, _ *Decided) {
			for i := range w.home.advanced {
				for _, s := range specs {
					if o := &w.home.advanced[i]; sameWindows(o.spec, s) && o.spec[0].Limit == 1<<40 {
						o.spec = s
					}
				}
			}
		}
	})
	broken("a reset forgets what is advanced", 151, func(m *mutant) {
		m.reset = func(w *world) { w.home.advanced = nil }
	})
	broken("a reset drops all draws of accounts to come", 6, func(m *mutant) {
		m.reset = func(w *world) { w.home.resetAt += 1000 }
	})
	broken("a recall is forgotten", 215, func(m *mutant) { m.deaf = true })
	broken("the home denies while units are advanced", 29, func(m *mutant) {
		m.decide = func(w *world, _ *Ask) {
			for i := range w.home.advanced {
				w.home.advanced[i].recalled = 1
			}
		}
	})
	return all
}

func deleteFunc(all []out, drop func(out) bool, dropped *[]out) (kept []out) {
	for _, o := range all {
		if drop(o) {
			*dropped = append(*dropped, o)
		} else {
			kept = append(kept, o)
		}
	}
	return kept
}

func equal(a, b Bounds) bool { return slices.Equal(a, b) }

func sameWindows(a, b Bounds) bool {
	return slices.EqualFunc(a, b, func(p, q Bound) bool { return p.Measure == q.Measure })
}

// Every rule is needed: without it there is a history that breaks the promise, and the simulation finds it.
func TestMutantsAreCaught(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			caught, began := "", time.Now()
			for seed := m.seed; seed < m.seed+3000 && caught == ""; seed++ {
				w := chaos(seed, m)
				w.run(40_000)
				if len(w.broken) > 0 {
					caught = w.broken[0]
					t.Logf("seed %d, %v: %s", seed, time.Since(began).Round(time.Millisecond), caught)
				}
			}
			require.NotEmpty(t, caught)
		})
	}
}
