package engine

import (
	"slices"

	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// flightKey names a flight: a client key, and the limits that are asked about.
type flightKey struct {
	key      string
	question question // without cost
}

// flight takes what parts did not admit to the key's home, for all requests that ask
// about the same limits. One goroutine asks and reads; who comes meanwhile parks
// and goes along the next time.
type flight struct {
	splits  *splits
	id      flightKey
	key     []byte
	wait    waiter
	parked  []*party // guarded by splits.mu
	reading bool     // guarded by splits.mu: asking a part would be in vain
}

// party is equal requests of a flight, asked as one.
type party struct {
	items []item
	flow  *shard.Flow
	miss  *missed
	reads map[int]*reported // by part, the latest
	read  int64             // ms of the engine's clock when the latest were sent for
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

// reading tells whether r's flight is reading the parts: it would ask one in vain.
func (s *splits) reading(r *Request) bool {
	if s.known.Load() == 0 || r.Op > OpFixed || r.Cost == 0 {
		return false
	}
	id := flightKey{string(r.Key), r.question()}
	id.question.cost = 0
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.flights[id]
	return f != nil && f.reading
}

func (f *flight) run() {
	s := f.splits
	defer s.under.Done()
	var open []*party
	for {
		s.mu.Lock()
		f.reading = false
		open = append(open, combineParties(f.parked)...)
		f.parked = nil
		if len(open) == 0 {
			delete(s.flights, f.id)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		open = f.known(open)
		open = f.ask(open)
		if len(open) > 0 {
			s.mu.Lock()
			f.reading = true
			s.mu.Unlock()
			f.read(open)
		}
	}
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
		if p.miss != nil {
			miss = p.miss
		}
		out[i] = newParty(append(out[i].items, p.items...), miss)
	}
	return out
}

// known answers parties that were denied before, and returns the others.
func (f *flight) known(open []*party) []*party {
	e := f.splits.engine
	if e.config.AskAlways {
		return open
	}
	return slices.DeleteFunc(open, func(p *party) bool {
		now := e.elapsed().Milliseconds()
		for i, it := range p.items {
			if !e.denied.answer(it.req, now, it.res) {
				p.items = p.items[i:]
				if i > 0 { // it has just ended
					*p = *newParty(p.items, p.miss)
				}
				return false
			}
			it.wait.answered(1)
		}
		return true
	})
}

// ask asks the home for every party and answers those that it decides. It returns the
// others.
func (f *flight) ask(open []*party) []*party {
	e := f.splits.engine
	sent, resets := e.elapsed().Milliseconds(), e.denied.resets.Load()
	runs := make([]*run, len(open))
	for i, p := range open {
		runs[i] = p.question(e, f.key, sent)
	}
	f.splits.asked.Add(int64(len(runs)))
	e.call(f.key, &f.wait, runs...)
	left := open[:0]
	for i, p := range open {
		r := reader{runs[i].reply, runs[i].why == ""}
		var a *homeAnswer
		if r.ok {
			a = r.answer(p.flow.Ask(), p.miss)
		}
		if !r.ok {
			if runs[i].why == "" {
				runs[i].why = errReply.Error()
			}
			for j := range p.items {
				p.items[j].part, p.items[j].unsure = 0, runs[i].unsure // there is nobody else to ask
				runs[i].node.refuse(&p.items[j], runs[i].why)
			}
			answered(p.items)
			continue
		}
		f.lend(p, a)
		if p.answer(e, a, sent, resets) {
			continue
		}
		left = append(left, p)
	}
	return left
}

// question returns the run that asks the home.
func (p *party) question(e *Redis, key []byte, now int64) *run {
	q, r := p.flow.Question(), p.items[0].req
	asked := r.question()
	var miss, reports, away []byte
	if p.miss != nil {
		miss = p.miss.append(nil)
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

// lend sends the home's loan on to its part, once. Nothing waits for it.
func (f *flight) lend(p *party, a *homeAnswer) {
	s := f.splits
	s.learn(f.key, a.parts)
	s.observe(p.items[0].req, 0, a.rate)
	if p.miss == nil {
		return
	}
	s.lent(f.key, p.miss.Part, a.Loan != nil)
	if a.Loan != nil {
		s.loans.Add(1)
		s.engine.post(f.key, nil, s.engine.script(lua.Take, f.key, a.Loan.Part, appendLoan(nil, a.Loan)))
	}
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
			first = max(1, r.of(state).first-(now-p.read)-1)
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

// read recalls the parts that the home has named to any of the parties.
func (f *flight) read(open []*party) {
	e, to := f.splits.engine, map[int]shard.Recall{}
	for _, p := range open {
		for _, r := range p.flow.Recalls {
			if old, found := to[r.Part]; !found || old.Seq <= r.Seq {
				to[r.Part] = r
			}
		}
	}
	sent := e.elapsed().Milliseconds()
	reads, away := e.readParts(f.key, doRecall, to, &f.wait)
	f.splits.readings.Add(1)
	reports := make([]shard.Report, 0, len(reads))
	for _, r := range reads {
		reports = append(reports, r.Report)
	}
	for _, p := range open {
		p.read = sent
		if p.reads == nil {
			p.reads = map[int]*reported{}
		}
		for _, r := range reads {
			p.reads[r.Part] = r
		}
		p.flow.Read(reports, away)
	}
}

// readParts sends recalls to all parts at once. It returns the reports, and the parts
// that did not answer.
func (e *Redis) readParts(key []byte, what byte, to map[int]shard.Recall, wait *waiter) (reads []*reported, away []int) {
	var runs []*run
	for part, r := range to {
		runs = append(runs, e.script(lua.Recall, key, part, appendRecall(nil, what, &r)))
	}
	e.splits.recalls.Add(int64(len(runs)))
	e.call(key, wait, runs...)
	for _, r := range runs {
		recall := to[r.part]
		read := reader{r.reply, r.why == ""}
		var report *reported
		if read.ok {
			report = read.report(&recall)
		}
		if !read.ok {
			away = append(away, r.part)
			continue
		}
		report.node = r.node
		reads = append(reads, report)
	}
	return reads, away
}
