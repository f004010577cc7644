package model

import (
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/engine/advance"
)

// proxy has the code of package advance in a process with clocks of its own, that may be stopped or killed.
type proxy struct {
	w        *world
	id       int64
	distance int64 // us that a message to the node takes
	keys     map[int]*advance.Balance
	specs    []Bounds

	drift     float64       // by which its clocks are faster than the node's
	wall      time.Duration // its wall clock's offset
	ahead     int64         // ms by which the node's clock was ahead when a request was last refused for its date
	asleep    time.Duration // for how long its machine was suspended, which the monotonic clock does not count
	asked     int64         // when a request last made a call to the home
	cutOff    int64         // until when no message reaches it, nor the node
	dead      bool
	stopped   bool
	meanwhile []func() // what happens once it runs again
}

var ids int64

func (w *world) start(distance int64, specs []Bounds, drift float64, wall time.Duration) *proxy {
	ids++
	p := &proxy{w: w, id: ids, distance: distance, keys: map[int]*advance.Balance{}, specs: slices.Clone(specs), drift: drift, wall: wall}
	w.proxies = append(w.proxies, p)
	p.tick()
	return p
}

func (p *proxy) tick() {
	if p.dead {
		return
	}
	p.w.after(10_000+p.w.rng.Int64N(10_000), func() {
		p.when(func() {
			for i := range p.specs {
				if k := p.keys[i]; k != nil && k.Due(p.instant()) {
					p.account(i)
				}
			}
			p.tick()
		})
	})
}

// instant reads both clocks.
func (p *proxy) instant() advance.Instant {
	t := time.Duration(float64(p.w.now)*(1+p.drift)) * time.Microsecond
	return p.w.mutant.instant(advance.Instant{Monotonic: t - p.asleep, Wall: t + p.wall})
}

// when has something happen, at once or when the proxy runs again.
func (p *proxy) when(do func()) {
	switch {
	case p.dead:
	case p.stopped:
		p.meanwhile = append(p.meanwhile, do)
	default:
		do()
	}
}

// stop stops the process for a time. If the machine is suspended, its monotonic clock stands still.
func (p *proxy) stop(us int64, suspended bool) {
	if p.dead || p.stopped {
		return
	}
	p.w.seen.stops++
	p.stopped = true
	p.w.after(us, func() {
		p.stopped = false
		if suspended {
			p.asleep += time.Duration(us) * time.Microsecond
		}
		all := p.meanwhile
		p.meanwhile = nil
		for _, do := range all {
			p.when(do)
		}
	})
}

// today returns the index of the spec with index i as of today, by the proxy's clock.
func (p *proxy) today(i int) int { return p.dated(i, p.instant().Wall.Milliseconds()+p.ahead) }

// dated returns the index of the spec with index i as of a ms.
func (p *proxy) dated(i int, ms int64) int {
	s := p.specs[i].dated(ms)
	found := slices.IndexFunc(p.specs, func(other Bounds) bool { return equal(s, other) })
	if found < 0 {
		p.specs, found = append(p.specs, s), len(p.specs)
	}
	return found
}

func (b Bounds) dated(ms int64) Bounds {
	b = slices.Clone(b)
	for i := range b {
		b[i].Measure = b[i].Dated(ms)
	}
	return b
}

func (p *proxy) key(i int) *advance.Balance {
	if p.keys[i] == nil {
		period := advance.Span(advance.Usual, p.specs[i].shortest(), p.roundTrip())
		p.keys[i] = &advance.Balance{Period: period, Hot: 8} // fewer than pay, so that more is drawn
	}
	return p.keys[i]
}

// request decides a request, in memory or at the home.
func (p *proxy) request(i int, cost int64) {
	if p.dead || p.stopped {
		return
	}
	w := p.w
	w.seen.requests++
	i = p.today(i)
	if cost > 0 && p.w.mutant.request(p, i, cost) {
		w.seen.drawn++
		if p.specs[i][0].Algorithm == Calendar {
			w.seen.dated++
		}
		w.seen.admitted++
		w.admitted(p.specs[i], cost)
		if k := p.key(i); k.Due(p.instant()) {
			p.account(i)
		}
		return
	}
	p.ask(i, cost, 1000)
	if k := p.key(i); k.Due(p.instant()) || k.Wants(p.instant()) {
		p.account(i)
	}
}

// burst makes as many requests as the advance admits.
func (p *proxy) burst(i int) {
	for left := p.key(p.today(i)).Left(); left > 0 && !p.dead && !p.stopped; left-- {
		p.request(i, 1)
	}
}

// ask has the home decide a request. It is asked again after a pause while advances are recalled.
func (p *proxy) ask(i int, cost, pause int64) {
	w := p.w
	if w.now >= p.asked+p.distance { // two calls are under way at a time, and what comes meanwhile is combined
		p.asked = w.now
		w.seen.calls++
	}
	q := &Ask{Proxy: p.id, Bounds: p.specs[i], Cost: cost, Requests: 1, RoundTrip: p.roundTrip()}
	w.call(p, q, false, func(a *Decided, _ advance.Instant) {
		if a != nil && a.Misdated {
			w.seen.misdated++
			p.ahead = a.Clock - p.instant().Wall.Milliseconds()
			p.ask(p.dated(i, a.Clock), cost, pause)
			return
		}
		if a == nil || !a.Recalled {
			if a != nil && a.Granted == 0 {
				w.seen.denied++
			}
			return
		}
		p.recall()
		w.after(pause, func() { p.when(func() { p.ask(i, cost, 2*pause) }) })
	})
}

// account tells the home about the advance, or asks for one.
func (p *proxy) account(i int) {
	k := p.key(i)
	c := k.Call(p.instant())
	p.w.seen.calls++
	p.w.mutant.about(p, i, &c)
	q := &Ask{Proxy: p.id, Bounds: p.specs[i], Cost: 1, Account: c.Account, Want: c.Want, RoundTrip: p.roundTrip()}
	again := c.Account != nil // what may have been applied is never sent again otherwise
	p.w.call(p, q, again, func(a *Decided, sent advance.Instant) { p.end(k, c, sent, a) })
}

func (p *proxy) end(k *advance.Balance, c advance.Message, sent advance.Instant, a *Decided) {
	if a == nil {
		k.End(c, sent, nil)
		return
	}
	terms := a.Terms
	p.w.mutant.end(p, c, &sent, &terms)
	k.End(c, sent, &terms)
}

func (p *proxy) recall() {
	if p.w.mutant.deaf {
		return
	}
	for i, k := range p.keys {
		k.Recall()
		if k.Due(p.instant()) {
			p.account(i)
		}
	}
}

func (p *proxy) roundTrip() time.Duration { return time.Duration(2*p.distance) * time.Microsecond }
