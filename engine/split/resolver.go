package split

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// resolver takes refused requests to the key's home, for all requests with the same limits. One goroutine calls the
// home and recalls shards. Groups that arrive meanwhile wait for the next round.
type resolver struct {
	s         *Splitter
	id        resolverID
	key       []byte
	waiting   []*group // groups that wait for the next round; guarded by Splitter.mu
	recalling bool     // shards are being recalled and admit nothing; guarded by Splitter.mu
}

// join gives a group to the resolver of its limits, and starts one if there is none.
func (s *Splitter) join(g *group) {
	id := idOf(g.request())
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.resolvers[id]
	if f == nil {
		f = &resolver{s: s, id: id, key: []byte(id.key)}
		s.resolvers[id] = f
		s.running.Go(f.run) // until no group waits
	}
	f.waiting = append(f.waiting, g)
}

func (f *resolver) run() {
	var open []*group
	for {
		waiting := f.take(len(open) == 0)
		if len(open)+len(waiting) == 0 {
			return
		}
		ok := f.s.guard("resolving a split key", func() {
			open, waiting = append(open, combine(waiting)...), nil
			open = f.round(open)
		})
		if !ok {
			for _, g := range append(open, waiting...) {
				if g != nil { // nil: the group was answered. A group has only requests that were not
					g.fail(&Failure{Why: backend.ErrPanicked.Error(), MaybeApplied: true})
				}
			}
			open = nil
		}
	}
}

// take returns the groups that wait. If there are none and the resolver is idle, take removes
// the resolver, which then ends. A group that comes later starts another one.
func (f *resolver) take(idle bool) []*group {
	f.s.mu.Lock()
	defer f.s.mu.Unlock()
	f.recalling = false
	if idle && len(f.waiting) == 0 {
		delete(f.s.resolvers, f.id)
	}
	groups := f.waiting
	f.waiting = nil
	return groups
}

// maxRecalls is the most rounds of recalls for a group. The home decides after one round, or
// after a few if shards get loans meanwhile.
const maxRecalls = 32

// round asks the home for every group, and recalls the shards that it names. It returns the groups that are still open.
func (f *resolver) round(open []*group) []*group {
	open = slices.DeleteFunc(f.askHome(f.dropLate(f.answerKnown(open))), func(g *group) bool {
		if g.recalled++; g.recalled <= maxRecalls {
			return false
		}
		g.fail(&Failure{Why: "the key's home did not decide", MaybeApplied: true})
		return true
	})
	if len(open) > 0 {
		f.s.mu.Lock()
		f.recalling = true
		f.s.mu.Unlock()
		f.recall(open)
	}
	return open
}

// answerKnown answers requests that a remembered denial covers, and returns the groups that have others.
func (f *resolver) answerKnown(open []*group) []*group {
	memory := f.s.config.Denials
	if memory == nil {
		return open
	}
	now := f.s.now()
	return slices.DeleteFunc(open, func(g *group) bool {
		known := len(g.requests)
		for len(g.requests) > 0 && memory.Answer(g.request(), now, g.requests[0].Result) {
			answered := g.requests[0]
			g.requests = g.requests[1:]
			answered.done()
		}
		if known > len(g.requests) && len(g.requests) > 0 { // the denial has just ended
			*g = *newGroup(g.requests, g.refusal)
		}
		return len(g.requests) == 0
	})
}

// dropLate fails the requests for which hardly any time is left, so that their FAIL policies
// answer them. It returns the groups that have others.
func (f *resolver) dropLate(open []*group) []*group {
	if f.s.config.Patience == nil {
		return open
	}
	now, patience := f.s.now(), f.s.config.Patience()
	late := func(r *Request) bool { return now-r.Sent >= patience }
	return slices.DeleteFunc(open, func(g *group) bool {
		if !slices.ContainsFunc(g.requests, late) {
			return false
		}
		var rest []*Request
		for _, r := range g.requests {
			if late(r) {
				r.fail(&Failure{Why: "no answer in time"})
			} else {
				rest = append(rest, r)
			}
		}
		if g.requests = nil; len(rest) > 0 {
			*g = *newGroup(rest, g.refusal)
		}
		return len(rest) == 0
	})
}

// askHome asks the home for every group and answers those that it decides. It returns the others.
func (f *resolver) askHome(open []*group) []*group {
	if len(open) == 0 {
		return nil
	}
	sent, resets := f.s.now(), f.s.resets()
	calls := make([]*Call, len(open))
	for i, g := range open {
		calls[i] = g.call(max(f.s.wanted(g.request()), 1))
	}
	f.s.homeCalls.Add(int64(len(calls)))
	f.s.nodes.Call(f.key, calls)
	left := open[:0]
	for i, g := range open {
		reply, failure := g.decode(calls[i])
		if failure != nil {
			g.fail(failure)
			continue
		}
		if g.answerAgain() {
			continue
		}
		f.lend(g, reply)
		if !f.s.answer(g, reply, sent, resets) {
			left = append(left, g)
		}
	}
	return left
}

// lend passes the home's loan, if any, on to its shard, once. It does not wait for the result.
func (f *resolver) lend(g *group, reply *wire.HomeReply) {
	f.s.learn(f.key, reply.Shards)
	f.s.observeRate(g.request(), 0, reply.Rate)
	if g.refusal == nil {
		return
	}
	f.s.lent(f.key, g.refusal.Shard, reply.Loan != nil)
	if reply.Loan != nil {
		f.s.loans.Add(1)
		f.s.nodes.Post(f.key, &Call{Function: lua.Take, Shard: reply.Loan.Shard, Args: wire.Args(reply.Loan)})
	}
}

// recall recalls the shards that the home has named for any of the groups.
func (f *resolver) recall(open []*group) {
	var recalls []lease.Recall
	since := open[0].since()
	late := false // recalls that are still stale now mean that home and shard contradict each other
	for _, g := range open {
		since = min(since, g.since())
		late = late || g.recalled > maxRecalls/2
		for _, r := range g.flow.Recalls {
			i := slices.IndexFunc(recalls, func(other lease.Recall) bool { return other.Shard == r.Shard })
			switch {
			case i < 0:
				recalls = append(recalls, r)
			case recalls[i].Seq <= r.Seq:
				recalls[i] = r
			}
		}
	}
	reports, unreachable := f.s.collect(f.key, since, wire.ShardOrder{}, recalls)
	f.s.rounds.Add(1)
	current := make([]lease.Report, 0, len(reports))
	for _, r := range reports {
		if r.Stale && late {
			unreachable = append(unreachable, r.Shard)
			continue
		}
		current = append(current, r.Report)
	}
	for _, g := range open {
		for _, r := range reports {
			g.reports[r.Shard] = r
		}
		g.flow.FromRecalls(current, unreachable)
	}
}

// resets returns the count of resets, for denials.Cache.Remember.
func (s *Splitter) resets() uint64 {
	if s.config.Denials == nil {
		return 0
	}
	return s.config.Denials.Resets()
}

func (s *Splitter) remember(r *engine.Request, res *engine.Result, sent int64, resets uint64) {
	if s.config.Denials != nil {
		s.config.Denials.Remember(r, res.Decision, sent, resets)
	}
}
