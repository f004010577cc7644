package shard

import "slices"

// proxy is the model's: it takes asks through the protocol with Flow, joins recalls
// and remembers denials. A crash makes it deaf to every answer under way.
type proxy struct {
	w        *world
	life     int // grows with each crash
	remember bool
	rounds   map[int]*round // by the ask's limits: recalls under way and those to come
	denied   map[denial]int64

	asked, admitted, refusals int64 // requests
	maxRounds                 int   // of recalls that one ask took
}

func newProxy(w *world, remember bool) *proxy {
	return &proxy{w: w, remember: remember, rounds: map[int]*round{}, denied: map[denial]int64{}}
}

// denial is what a remembered denial answers.
type denial struct {
	pairs int
	cost  int64
}

// round is one reading of parts for all flows that wait for it.
type round struct {
	reading []*trip
	waiting []*trip // for the next reading
	parked  []*trip // until this one ends, to ask the home
	sent    int64
}

// trip is a flow with what the model knows of it.
type trip struct {
	*Flow
	pairs   int // index of the ask's limits
	arrived int64
	rounds  int
	retry   int64   // lower bound, ms, as the home's last answer said
	behind  []*trip // equal asks that are decided with this one
	asked   int64   // when the home was last asked
}

func (p *proxy) alive(life int, do func(outcome)) func(outcome) {
	return func(o outcome) {
		if p.life == life {
			do(o)
		}
	}
}

func (p *proxy) crash() {
	p.life++
	p.rounds, p.denied = map[int]*round{}, map[denial]int64{}
}

// ask starts an ask at a part.
func (p *proxy) ask(a Ask, pairs, part int) {
	p.asked += a.N
	if p.remember && p.w.now < p.denied[denial{pairs, a.Cost}] {
		p.refusals += a.N
		return
	}
	t := &trip{Flow: NewFlow(a, part), pairs: pairs, arrived: p.w.now, retry: 1}
	if r := p.rounds[pairs]; r != nil && r.reading != nil { // no room: do not look for it in a part
		if p.w.mutant.joinLate {
			r.reading = append(r.reading, t)
			return
		}
		t.Step = AskHome
		r.parked = wait(r.parked, t)
		return
	}
	p.next(t)
}

func (p *proxy) next(t *trip) {
	switch t.Step {
	case AskPart:
		p.askPart(t)
	case AskHome:
		p.askHome(t)
	case ReadParts:
		p.join(t)
	case Finished:
		p.admitted += t.grantedInAll()
		p.refusals += t.rest.N
		if t.rest.N > 0 && p.remember {
			p.denied[denial{t.pairs, t.rest.Cost}] = t.asked + min(t.retry, 1000)*1000
		}
	}
}

// grantedInAll counts what the trips behind this one got before they joined it, too.
func (t *trip) grantedInAll() int64 {
	sum := t.Granted
	for _, b := range t.behind {
		sum += b.grantedInAll()
	}
	return sum
}

func (p *proxy) askPart(t *trip) {
	w, n := p.w, p.w.nodes[t.Part]
	var granted int64
	var miss Miss
	a := *t.Ask()
	w.call(n, func() {
		w.mutant.part(n, &a)
		granted, miss = n.part.Ask(w.rules, n.clock(), n.newest(), &a, n.used)
		n.charge(&a, granted)
	}, p.alive(p.life, func(o outcome) {
		switch o {
		case answered:
			t.FromPart(granted, miss)
			p.next(t)
		case refused:
			t.PartAway()
			p.next(t)
		case unknown: // the failure policy answers
		}
	}))
}

func (p *proxy) askHome(t *trip) {
	w, home := p.w, p.w.nodes[0]
	q, a := *t.Question(), *t.Question().Ask
	q.Ask = &a
	var answer Answer
	t.asked = w.now
	w.call(home, func() { answer = w.decide(t, &q) }, p.alive(p.life, func(o outcome) {
		if o != answered {
			return
		}
		if answer.Loan != nil {
			p.deliver(answer.Loan)
		}
		t.FromHome(answer)
		p.next(t)
	}))
}

// decide is the home's script, and the check of every denial: nothing that was read
// since the ask arrived may leave room for it.
func (w *world) decide(t *trip, q *Question) Answer {
	home := w.nodes[0]
	w.mutant.home(home, q)
	own := make([]int64, len(q.Ask.Pairs))
	for i, pair := range q.Ask.Pairs {
		own[i] = home.used(pair.State, true)
	}
	answer := home.home.Decide(w.rules, home.clock(), q, own)
	home.charge(q.Ask, answer.Granted)
	if answer.Granted < q.Ask.N && len(answer.Recall) == 0 {
		w.checkDenial(home, q, t.question.Away)
		t.retry = 1000
		for _, n := range w.nodes {
			for _, pair := range q.Ask.Pairs {
				t.retry = min(t.retry, n.retry(pair.State))
			}
		}
	}
	return answer
}

func (w *world) checkDenial(home *node, q *Question, away []int) {
	for _, pair := range q.Ask.Pairs {
		sum := home.used(pair.State, true)
		for _, l := range home.home.Lent {
			read, ok := lastRead(&l, pair.State, q)
			if !ok && !slices.Contains(away, l.Part) && l.counts(pair.State, true) > 0 {
				w.fail("denied although part %d was not read", l.Part)
			}
			sum += read
		}
		limit := pair.Limit
		for _, l := range home.home.Lent { // an away part's live lease holds the limit down
			if l.live(w.rules, home.clock()) && !q.Ask.Same(home.home.Pairs, home.home.Strict) {
				for _, lent := range home.home.Pairs {
					if lent.State == pair.State {
						limit = min(limit, lent.Limit)
					}
				}
			}
		}
		if sum+q.Ask.Cost > limit {
			return
		}
	}
	w.fail("denied although what was read leaves room")
}

// lastRead is what a part had in use when it was read for this question, or else what
// it may have; ok tells whether it answered.
func lastRead(l *Lent, s State, q *Question) (units int64, ok bool) {
	reports := q.Reports
	if m := q.Miss; m != nil && m.Over {
		reports = append(slices.Clip(reports), Report{Part: m.Part, Seq: m.Seq, Born: m.Born, Used: m.Used})
	}
	for _, r := range reports {
		if r.Part != l.Part || r.Seq < l.Seq || r.Stale {
			continue
		}
		ok = true
		for _, used := range r.Used {
			if used.State == s && r.Born == l.Born {
				return used.N, true
			}
		}
	}
	return l.counts(s, true), ok
}

func (p *proxy) deliver(l *Loan) {
	w, n := p.w, p.w.nodes[l.Part]
	w.call(n, func() {
		loan := *l
		loan.Held = append([]int64(nil), l.Held...)
		w.mutant.take(n, &loan)
		n.part.Take(w.rules, n.clock(), &loan)
	}, func(outcome) {})
}

// join waits for a reading that is sent for after the trip arrived: the one under
// way is too old, the next one serves all that wait by then. Equal asks wait as one.
func (p *proxy) join(t *trip) {
	t.rounds++
	p.maxRounds = max(p.maxRounds, t.rounds)
	r := p.rounds[t.pairs]
	if r == nil {
		r = &round{}
		p.rounds[t.pairs] = r
	}
	r.waiting = wait(r.waiting, t)
	if r.reading == nil {
		p.read(t.pairs, r)
	}
}

// wait adds a trip to those that wait. Equal asks wait as one.
func wait(trips []*trip, t *trip) []*trip {
	for _, first := range trips {
		if first.rest.Cost == t.rest.Cost {
			first.rest.N += t.rest.N
			first.behind = append(first.behind, t)
			first.Recalls = merge(first.Recalls, t.Recalls)
			return trips
		}
	}
	return append(trips, t)
}

func merge(a, b []Recall) []Recall {
	for _, r := range b {
		found := false
		for i := range a {
			if a[i].Part == r.Part {
				found = true
				if a[i].Seq < r.Seq {
					a[i] = r
				}
			}
		}
		if !found {
			a = append(a, r)
		}
	}
	return a
}

func (p *proxy) read(pairs int, r *round) {
	r.reading, r.waiting, r.sent = r.waiting, nil, p.w.now
	var recalls []Recall
	for _, t := range r.reading {
		recalls = merge(recalls, t.Recalls)
	}
	p.recall(recalls, func(reports []Report, away []int) {
		done := r.reading
		r.reading = nil
		for _, t := range done {
			if r.sent < t.arrived {
				p.w.fail("read before the ask arrived")
			}
			t.Read(reports, away)
			p.next(t)
		}
		parked := r.parked
		r.parked = nil
		for _, t := range parked {
			p.next(t)
		}
		if r.reading == nil && len(r.waiting) > 0 {
			p.read(pairs, r)
		}
	})
}

// recall reads parts at once; now and then a recall is sent twice.
func (p *proxy) recall(recalls []Recall, done func([]Report, []int)) {
	w, left := p.w, len(recalls)
	var reports []Report
	var away []int
	for _, r := range recalls {
		n := w.nodes[r.Part]
		var report Report
		run := func() { report = w.recallPart(n, r) }
		if w.loss > 0 && w.rng.IntN(8) == 0 {
			w.call(n, func() { w.recallPart(n, r) }, func(outcome) {})
		}
		w.call(n, run, p.alive(p.life, func(o outcome) {
			if o == answered {
				reports = append(reports, report)
			} else {
				away = append(away, r.Part)
			}
			if left--; left == 0 {
				done(reports, away)
			}
		}))
	}
}

func (w *world) recallPart(n *node, r Recall) Report {
	held := append([]int64(nil), n.part.Held...)
	w.mutant.recall(n, &r)
	report := n.part.Recall(n.clock(), n.newest(), &r, n.used)
	w.mutant.report(n, held, &report)
	return report
}

// reset is RL.RESET: the parts forget first, then the home.
func (p *proxy) reset() {
	w, home := p.w, p.w.nodes[0]
	var recalls []Recall
	w.call(home, func() { recalls = home.home.Recalls(w.rules, home.clock()) }, p.alive(p.life, func(o outcome) {
		if o != answered {
			return
		}
		left := len(recalls)
		var reports []Report
		finish := func() { w.call(home, func() { home.home.Reset(reports); home.forget() }, func(outcome) {}) }
		if w.mutant.resetHomeOnly {
			for _, r := range recalls {
				reports = append(reports, Report{Part: r.Part, Seq: r.Seq})
			}
			recalls = nil
			left = 0
		}
		if left == 0 {
			finish()
		}
		for _, r := range recalls {
			n := w.nodes[r.Part]
			var report Report
			w.call(n, func() {
				if report = n.part.Forget(w.rules, n.clock(), &r); !report.Stale {
					n.forget()
				}
			}, p.alive(p.life, func(o outcome) {
				if o == answered {
					reports = append(reports, report)
				}
				if left--; left == 0 {
					finish()
				}
			}))
		}
	}))
}
