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
		runs[i] = p.question(e, f.key)
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
	reads, away := e.readParts(f.key, doRecall, to, &f.wait)
	f.splits.readings.Add(1)
	reports := make([]shard.Report, 0, len(reads))
	for _, r := range reads {
		reports = append(reports, r.Report)
	}
	for _, p := range open {
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
	sent := e.elapsed().Milliseconds()
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
		report.node, report.sent = r.node, sent
		reads = append(reads, report)
	}
	return reads, away
}
