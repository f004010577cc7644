package engine

import (
	"slices"

	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// party is equal requests of a flight, asked as one.
type party struct {
	items []item
	flow  *shard.Flow
	miss  *missed
	reads map[int]*reported // by part, the latest
}

// newParty takes items that a part did not admit; miss is nil if none was asked.
func newParty(items []item, miss *missed) *party {
	r := items[0].req
	p := &party{items: items, miss: miss}
	ask := shard.Ask{Pairs: r.pairs(), Strict: r.Strict, Cost: r.Cost, N: int64(len(items))}
	if miss == nil {
		p.flow = shard.NewFlow(ask, 0)
		return p
	}
	p.flow = shard.NewFlow(ask, miss.Part)
	p.flow.FromPart(0, miss.Miss)
	return p
}

// join hands a party to the flight about its limits.
func (s *splits) join(p *party) {
	r := p.items[0].req
	id := flightKey{string(r.Key), r.question()}
	id.question.cost = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[id]
	if f == nil {
		f = &flight{splits: s, id: id, key: []byte(id.key)}
		s.flights[id] = f
		s.under.Add(1)
		go f.run() // until nobody is left who waits for it
	}
	f.parked = append(f.parked, p)
}

// combineParties makes one of those that came of one part's misses and ask for the same
// cost.
func combineParties(all []*party) []*party {
	var out []*party
	for _, p := range all {
		i := slices.IndexFunc(out, func(o *party) bool {
			return o.flow.Part == p.flow.Part && o.items[0].req.Cost == p.items[0].req.Cost
		})
		if i < 0 {
			out = append(out, p)
			continue
		}
		miss := out[i].miss
		if miss == nil || p.miss.Clock > miss.Clock { // what an older one says may not be so any more
			miss = p.miss
		}
		out[i] = newParty(append(out[i].items, p.items...), miss)
	}
	return out
}

// question returns the run that asks the home.
func (p *party) question(e *Redis, key []byte) *run {
	q, r := p.flow.Question(), p.items[0].req
	asked := r.question()
	var miss, reports, away []byte
	if p.miss != nil {
		miss = p.miss.pack()
	}
	for i := range q.Reports {
		reports = appendReport(reports, &q.Reports[i])
	}
	for _, part := range q.Away {
		away = appendUint(away, int64(part), 4)
	}
	wants := appendUint(appendUint(nil, q.Ask.N, 4), int64(max(e.splits.wanted(r), 1)), 2)
	return e.script(lua.Lend, key, 0, wants, asked.append(nil), miss, reports, away)
}

// answer fills in what the home decided. It returns whether that is all.
func (p *party) answer(e *Redis, a *homeAnswer, sent int64, resets uint64) bool {
	p.flow.FromHome(a.Answer)
	n := a.Granted
	if p.flow.Step == shard.Finished {
		n = int64(len(p.items))
	}
	r := p.items[0].req
	var vs [MaxWindows]verdict
	for i, t := range a.tallies {
		vs[i] = t.verdict()
		if a.Granted < n {
			vs[i].retry = p.retry(i, &t, a, sent)
		}
	}
	for j, it := range p.items[:n] {
		it.res.Decision = r.decide(vs[:r.N], a.clock, a.Granted, int64(j), resetOf(r.Op))
	}
	if a.Granted < n && !e.config.AskAlways {
		last := p.items[n-1]
		e.denied.remember(last.req, last.res.Decision, sent, resets)
	}
	answered(p.items[:n])
	p.items = p.items[n:]
	return len(p.items) == 0
}

// verdict is the tally as an engine's decision takes it.
func (t *tally) verdict() verdict {
	v := verdict{used: t.used, last: t.last, newest: t.newest}
	if t.lent > 0 { // parts admit until now
		v.last, v.newest = max(t.last, 0), t.newest+t.lent
	}
	return v
}

// retry returns ms before which there cannot be room for one more in window i: what
// has to be forgotten is more than the holders hold whose first unit goes before.
func (p *party) retry(i int, t *tally, a *homeAnswer, now int64) int64 {
	ask := p.items[0].req
	over := t.used + a.Granted*ask.Cost + ask.ask() - ask.Windows[i].Limit
	if over <= 0 {
		return 0
	}
	held := []holder{{t.own, t.first}}
	state := ask.splitState(ask.Windows[i])
	for _, l := range a.lent {
		first := int64(1)
		if r := p.reads[l.part]; r != nil && r.Born == l.born {
			first = max(1, r.of(state).first-(now-r.sent)-1)
		} else if m := p.miss; m != nil && m.Over && m.Part == l.part && m.Born == l.born {
			first = max(1, m.first[i]-(now-p.items[0].at.Milliseconds())-1)
		}
		held = append(held, holder{l.out[i], first})
	}
	return soonest(held, over)
}

// holder is units in use in one place, and the ms until the first is not.
type holder struct{ units, first int64 }

// soonest returns the ms before which not as many units can have been forgotten.
func soonest(held []holder, units int64) int64 {
	slices.SortFunc(held, func(a, b holder) int { return int(a.first - b.first) })
	for _, h := range held {
		if units -= h.units; units <= 0 {
			return max(h.first, 1)
		}
	}
	return 1
}
