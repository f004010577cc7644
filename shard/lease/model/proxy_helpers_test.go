package model

import (
	"slices"

	"github.com/rlproxy/rlproxy/shard/lease"
)

// proxy is a simulated proxy. It decides demands with lease.Flow, shares rounds of recalls
// between them and remembers denials. After a crash it ignores the answers to all calls that
// were pending.
type proxy struct {
	w        *world
	life     int              // Number of crashes so far.
	remember bool             // Remember denials.
	rounds   map[int]*round   // Rounds of recalls by the index of the demand's limits.
	denied   map[denial]int64 // Time until which a denial is remembered, in us.

	requests, admitted, denials int64
	maxRounds                   int // Most rounds of recalls that a demand took.
}

func newProxy(w *world, remember bool) *proxy {
	return &proxy{w: w, remember: remember, rounds: map[int]*round{}, denied: map[denial]int64{}}
}

// denial identifies a remembered denial.
type denial struct {
	limits int // Index of the demand's limits.
	cost   int64
}

// round is a round of recalls for all trips with the same limits.
type round struct {
	active  []*trip // Trips that the pending recalls are for.
	waiting []*trip // Trips that need the next round.
	parked  []*trip // Trips that ask the home when this round ends.
	sent    int64   // Time when the recalls were sent, in us.
}

// trip is a flow and what the simulation knows about it.
type trip struct {
	*lease.Flow
	limits  int     // Index of the demand's limits.
	arrived int64   // Time when the demand arrived, in us.
	rounds  int     // Rounds of recalls that the trip took part in.
	retry   int64   // Lower bound of the time in ms until there is room, from the home's last reply.
	behind  []*trip // Equal demands that joined this one.
	asked   int64   // Time when the home was last asked, in us.
}

// alive returns a function that calls do unless the proxy has crashed since the given life.
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

// demand starts a trip at a shard. limits is the index of the demand's limits.
func (p *proxy) demand(d lease.Demand, limits, shard int) {
	p.requests += d.N
	if p.remember && p.w.now < p.denied[denial{limits, d.Cost}] {
		p.denials += d.N
		return
	}
	t := &trip{Flow: lease.NewFlow(d, shard), limits: limits, arrived: p.w.now, retry: 1}
	if r := p.rounds[limits]; r != nil && r.active != nil { // There is no room, so do not ask a shard for it.
		if p.w.mutant.joinLate {
			r.active = append(r.active, t)
			return
		}
		t.Step = lease.AskHome
		r.parked = wait(r.parked, t)
		return
	}
	p.next(t)
}

// next takes the trip's next step.
func (p *proxy) next(t *trip) {
	switch t.Step {
	case lease.AskShard:
		p.askShard(t)
	case lease.AskHome:
		p.askHome(t)
	case lease.RecallShards:
		p.join(t)
	case lease.Finished:
		rest := t.Demand()
		p.admitted += t.grantedInAll()
		p.denials += rest.N
		if rest.N > 0 && p.remember {
			p.denied[denial{t.limits, rest.Cost}] = t.asked + min(t.retry, 1000)*1000
		}
	}
}

// grantedInAll returns what was granted to the trip and to those behind it, before and
// after they joined it.
func (t *trip) grantedInAll() int64 {
	sum := t.Granted
	for _, b := range t.behind {
		sum += b.grantedInAll()
	}
	return sum
}

func (p *proxy) askShard(t *trip) {
	w, n := p.w, p.w.nodes[t.Shard]
	var granted int64
	var refusal lease.Refusal
	d := *t.Demand()
	w.call(n, func() {
		w.mutant.admit(n, &d)
		granted, refusal = n.shard.Admit(w.rules, n.clock(), n.newest(), &d, n.used)
		n.charge(&d, granted)
	}, p.alive(p.life, func(o outcome) {
		switch o {
		case answered:
			t.FromShard(granted, refusal)
			p.next(t)
		case notRun:
			t.Step = lease.AskHome
			p.next(t)
		case unknown: // The FAIL policy answers.
		}
	}))
}

func (p *proxy) askHome(t *trip) {
	w, home := p.w, p.w.nodes[0]
	q, d := *t.HomeRequest(), *t.Demand()
	q.Demand = &d
	var reply lease.HomeReply
	t.asked = w.now
	w.call(home, func() { reply = w.decide(t, &q) }, p.alive(p.life, func(o outcome) {
		if o != answered {
			return
		}
		if reply.Loan != nil {
			p.deliver(reply.Loan)
		}
		t.FromHome(reply)
		p.next(t)
	}))
}

// decide runs the home's decision and checks every denial: what was reported since the
// demand arrived must leave no room for it.
func (w *world) decide(t *trip, q *lease.HomeRequest) lease.HomeReply {
	n := w.nodes[0]
	w.mutant.decide(n, q)
	own := make([]int64, len(q.Demand.Pairs))
	for i, pair := range q.Demand.Pairs {
		own[i] = n.used(pair.StateName, true)
	}
	reply := n.home.Decide(w.rules, n.clock(), q, own)
	n.charge(q.Demand, reply.Granted)
	if reply.Granted < q.Demand.N && len(reply.Recalls) == 0 {
		w.checkDenial(n, q, t.HomeRequest().Unreachable)
		t.retry = 1000
		for _, other := range w.nodes {
			for _, pair := range q.Demand.Pairs {
				t.retry = min(t.retry, other.retry(pair.StateName))
			}
		}
	}
	return reply
}

func (w *world) checkDenial(n *node, q *lease.HomeRequest, unreachable []int) {
	for _, pair := range q.Demand.Pairs {
		sum := n.used(pair.StateName, true)
		for _, l := range n.home.Lent {
			units, heard := lastReported(&l, pair.StateName, q)
			if !heard && !slices.Contains(unreachable, l.Shard) && l.mayHave(pair.StateName, true) {
				w.fail("denied although shard %d was not recalled", l.Shard)
			}
			sum += units
		}
		limit := pair.Limit
		for _, l := range n.home.Lent { // The live lease of an unreachable shard lowers the limit.
			if l.live(w.rules, n.clock()) && !q.Demand.Matches(n.home.Pairs, n.home.Strict) {
				for _, lent := range n.home.Pairs {
					if lent.StateName == pair.StateName {
						limit = min(limit, lent.Limit)
					}
				}
			}
		}
		if sum+q.Demand.Cost > limit {
			return
		}
	}
	w.fail("denied although the reports leave room")
}

// lastReported returns the units that a shard has in use according to its reports in this
// request, or the most that it may have if there is no report. heard reports whether the shard
// has answered.
func lastReported(l *Lent, s lease.StateName, q *lease.HomeRequest) (units int64, heard bool) {
	reports := q.Reports
	if r := q.Refusal; r != nil && r.LeaseEnded {
		reports = append(slices.Clip(reports), lease.Report{Shard: r.Shard, Seq: r.Seq, Incarnation: r.Incarnation, Used: r.Used})
	}
	for _, r := range reports {
		if r.Shard != l.Shard || r.Seq < l.Seq || r.Stale {
			continue
		}
		heard = true
		for _, used := range r.Used {
			if used.StateName == s && r.Incarnation == l.Incarnation {
				return used.N, true
			}
		}
	}
	units, _ = l.counts(s, true)
	return units, heard
}

func (p *proxy) deliver(l *lease.Loan) {
	w, n := p.w, p.w.nodes[l.Shard]
	w.call(n, func() {
		loan := *l
		loan.Held = append([]int64(nil), l.Held...)
		w.mutant.take(n, &loan)
		n.shard.Take(w.rules, n.clock(), &loan)
	}, func(outcome) {})
}

// join makes the trip wait for a round of recalls. They must be sent after the trip's demand
// arrived, so a round that has begun is too old for it. The next round serves all trips that
// are waiting when it begins.
func (p *proxy) join(t *trip) {
	t.rounds++
	p.maxRounds = max(p.maxRounds, t.rounds)
	r := p.rounds[t.limits]
	if r == nil {
		r = &round{}
		p.rounds[t.limits] = r
	}
	r.waiting = wait(r.waiting, t)
	if r.active == nil {
		p.startRound(t.limits, r)
	}
}

// wait adds a trip to those that wait. Equal demands join and wait as one.
func wait(trips []*trip, t *trip) []*trip {
	for _, first := range trips {
		if first.Demand().Cost == t.Demand().Cost {
			first.Demand().N += t.Demand().N
			first.behind = append(first.behind, t)
			first.Recalls = merge(first.Recalls, t.Recalls)
			return trips
		}
	}
	return append(trips, t)
}

// merge combines two lists of recalls. For each shard it keeps the newest recall.
func merge(a, b []lease.Recall) []lease.Recall {
	for _, r := range b {
		found := false
		for i := range a {
			if a[i].Shard == r.Shard {
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

func (p *proxy) startRound(limits int, r *round) {
	r.active, r.waiting, r.sent = r.waiting, nil, p.w.now
	var recalls []lease.Recall
	for _, t := range r.active {
		recalls = merge(recalls, t.Recalls)
	}
	p.recall(recalls, func(reports []lease.Report, unreachable []int) {
		done := r.active
		r.active = nil
		for _, t := range done {
			if r.sent < t.arrived {
				p.w.fail("recalls were sent before the demand arrived")
			}
			t.FromRecalls(reports, unreachable)
			p.next(t)
		}
		parked := r.parked
		r.parked = nil
		for _, t := range parked {
			p.next(t)
		}
		if r.active == nil && len(r.waiting) > 0 {
			p.startRound(limits, r)
		}
	})
}

// recall sends all recalls in parallel, some of them twice, and calls done with the results.
func (p *proxy) recall(recalls []lease.Recall, done func([]lease.Report, []int)) {
	w, left := p.w, len(recalls)
	var reports []lease.Report
	var unreachable []int
	for _, r := range recalls {
		n := w.nodes[r.Shard]
		var report lease.Report
		run := func() { report = w.recallShard(n, r) }
		if w.loss > 0 && w.rng.IntN(8) == 0 {
			w.call(n, func() { w.recallShard(n, r) }, func(outcome) {})
		}
		w.call(n, run, p.alive(p.life, func(o outcome) {
			if o == answered {
				reports = append(reports, report)
			} else {
				unreachable = append(unreachable, r.Shard)
			}
			if left--; left == 0 {
				done(reports, unreachable)
			}
		}))
	}
}

func (w *world) recallShard(n *node, r lease.Recall) lease.Report {
	held := append([]int64(nil), n.shard.Held...)
	w.mutant.recall(n, &r)
	report := n.shard.Recall(n.clock(), n.newest(), &r, n.used)
	w.mutant.report(n, held, &report)
	return report
}

// reset is RL.RESET: the shards forget first, the home last.
func (p *proxy) reset() {
	w, home := p.w, p.w.nodes[0]
	var recalls []lease.Recall
	w.call(home, func() { recalls = home.home.Recalls(w.rules, home.clock()) }, p.alive(p.life, func(o outcome) {
		if o != answered {
			return
		}
		left := len(recalls)
		var reports []lease.Report
		finish := func() { w.call(home, func() { home.home.Reset(reports); home.forget() }, func(outcome) {}) }
		if w.mutant.resetHomeOnly {
			for _, r := range recalls {
				reports = append(reports, lease.Report{Shard: r.Shard, Seq: r.Seq})
			}
			recalls = nil
			left = 0
		}
		if left == 0 {
			finish()
		}
		for _, r := range recalls {
			n := w.nodes[r.Shard]
			var report lease.Report
			w.call(n, func() {
				if report = n.shard.Forget(w.rules, n.clock(), &r); !report.Stale {
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
