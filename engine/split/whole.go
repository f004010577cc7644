package split

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
)

// whole answers equal requests that concern a split key as a whole: requests with cost 0, RL.INSPECT and RL.RESET.
type whole struct {
	s        *Splitter
	requests []*Request                        // equal requests
	key      []byte                            // the key's name
	lent     map[lease.StateName][]wire.Loaned // results of lentOf
}

// readWhole answers equal requests about a whole key in a goroutine.
func (s *Splitter) readWhole(requests []*Request) {
	w := &whole{s: s, requests: requests, key: slices.Clone(requests[0].Key)}
	s.running.Go(func() { // until the requests are resolved
		var failure *Failure
		if !s.guard("reading a split key", func() { failure = w.answer() }) {
			failure = &Failure{Why: backend.ErrPanicked.Error()}
		}
		for _, r := range requests {
			r.Failure = failure
			r.done()
		}
	})
}

func (w *whole) answer() *Failure {
	switch w.requests[0].Op {
	case engine.OpReset:
		return w.reset()
	case engine.OpInspect:
		return w.inspect()
	}
	return w.peek()
}

// home asks the home for the units that it and each shard have of a spec's windows. If the spec
// has no windows, the reply names the shards that hold anything.
func (w *whole) home(s *limit.Spec) (reply *wire.HomeReply, failure *Failure) {
	c := &Call{Function: lua.Lend, Args: wire.Args(wire.NewLend(s, 1, nil)), Sent: w.requests[0].Sent}
	failure = w.s.ask(w.key, c, func(text string) (err error) {
		reply, err = wire.DecodeHomeReply(text, s, 1, nil)
		return err
	})
	return reply, failure
}

// peek answers with the use of home and shards together. If a shard does not report its use, or
// has lost it, everything that it may hold counts as used.
func (w *whole) peek() *Failure {
	r := w.requests[0].Request
	reply, failure := w.home(&r.Spec)
	if failure != nil {
		return failure
	}
	var states []lease.StateName
	for _, p := range wire.Pairs(&r.Spec) {
		states = append(states, p.StateName)
	}
	for i := range reply.Recalls {
		reply.Recalls[i].States, reply.Recalls[i].Strict = states, r.Strict()
	}
	reports, _ := w.s.collect(w.key, w.requests[0].Sent, wire.ShardOrder{Report: true}, reply.Recalls)
	g := &group{requests: w.requests, reports: map[int]timedReport{}}
	for _, p := range reports {
		g.reports[p.Shard] = p
	}
	var us [limit.MaxWindows]limit.Usage
	granted := int64(len(w.requests))
	for i := range reply.Tallies {
		t := &reply.Tallies[i]
		t.Used, t.Lent = t.Own, 0
		for _, l := range reply.Lent {
			if p, ok := g.reports[l.Shard]; ok && p.Incarnation == l.Incarnation {
				l.Out[i] = p.of(states[i]).used
			}
			t.Used += l.Out[i]
			t.Lent += l.Out[i]
		}
		if t.Used >= r.Windows[i].Limit {
			granted = 0
		}
		us[i] = limit.Usage{Used: t.Used, Room: g.room(i, reply, w.s.now()), Empty: g.empty(i, reply)}
	}
	for j, request := range w.requests {
		request.Result.Decision = r.Decide(us[:r.N], reply.Clock, granted, int64(j))
	}
	return nil
}

// inspect adds the shards' states to those of the home, which the result has already.
func (w *whole) inspect() *Failure {
	reply, failure := w.home(&limit.Spec{})
	if failure != nil {
		return failure
	}
	reports, _ := w.s.collect(w.key, w.requests[0].Sent, wire.ShardOrder{Report: true}, reply.Recalls)
	res := w.requests[0].Result
	for _, l := range reply.Lent {
		i := slices.IndexFunc(reports, func(p timedReport) bool {
			return p.Shard == l.Shard &&
				p.Incarnation == l.Incarnation
		})
		if i < 0 {
			if failure := w.addUnreachable(l.Shard, reply); failure != nil {
				return failure
			}
			continue
		}
		p := reports[i]
		for i, u := range p.Used {
			if over(u.StateName, reply.Clock) {
				continue
			}
			s := w.state(u.StateName)
			s.Rate += p.Rate[i]
			if s.Limit == 0 {
				s.Limit = p.Limit[i]
			}
			addShard(s, engine.Shard{Number: p.Shard, Node: w.node(p.Shard), Held: p.Held[i], Used: u.N,
				Lease: p.LeaseLeft})
		}
	}
	for i := range res.States {
		s := &res.States[i]
		slices.SortFunc(s.Shards, func(a, b engine.Shard) int { return a.Number - b.Number })
		s.Remaining = max(s.Limit-s.Used-s.Held, 0)
	}
	engine.SortInspections(res.States)
	return nil
}

// over reports whether a state is of a calendar window that has ended by a ms.
func over(name lease.StateName, ms int64) bool {
	_, length, ok := limit.FromNode(limit.Kind(name.Kind), max(name.Buckets, 1), name.Window)
	return ok && length > 0 && limit.Window{Length: length}.EndsAt(ms) <= ms
}

// addUnreachable adds a shard that is unreachable or has lost its memory: everything that it was lent counts as used.
func (w *whole) addUnreachable(shard int, home *wire.HomeReply) *Failure {
	i := slices.IndexFunc(home.Recalls, func(r lease.Recall) bool { return r.Shard == shard })
	if i < 0 {
		return nil
	}
	for _, state := range home.Recalls[i].States {
		if over(state, home.Clock) {
			continue
		}
		lent, failure := w.lentOf(state)
		if failure != nil {
			return failure
		}
		for _, l := range lent {
			if l.Shard == shard && l.Out[0] > 0 {
				addShard(w.state(state), engine.Shard{Number: shard, Node: w.node(shard), Held: l.Out[0],
					Used: l.Out[0]})
			}
		}
	}
	return nil
}

// lentOf returns what the home has lent of a state to all shards. It asks the home once for each state.
func (w *whole) lentOf(state lease.StateName) ([]wire.Loaned, *Failure) {
	s := limit.Spec{Kind: limit.Kind(state.Kind), N: 1}
	s.Param, s.Windows[0].Length, _ = limit.FromNode(s.Kind, max(state.Buckets, 1), state.Window)
	lent, asked := w.lent[state]
	if asked || !s.Kind.Known() { // the state of a newer rlproxy has an unknown kind
		return lent, nil
	}
	s.Windows[0].Limit = limit.MaxLimit
	reply, failure := w.home(&s)
	if failure != nil {
		return nil, failure
	}
	if w.lent == nil {
		w.lent = make(map[lease.StateName][]wire.Loaned)
	}
	w.lent[state] = reply.Lent
	return reply.Lent, nil
}

// node returns the name of the node that has a shard.
func (w *whole) node(shard int) string {
	top := w.s.nodes.Topology()
	return top.Nodes[top.Locate(w.key, shard)].Name()
}

// state returns the named state of the result. If the result does not have it, because the home
// itself has admitted nothing of it, state adds it.
func (w *whole) state(name lease.StateName) *engine.Inspection {
	res, kind := w.requests[0].Result, limit.Kind(name.Kind)
	param, length, _ := limit.FromNode(kind, max(name.Buckets, 1), name.Window)
	for i := range res.States {
		if s := &res.States[i]; s.Kind == kind && s.Window == length && s.Param == param {
			return s
		}
	}
	res.States = append(res.States, engine.Inspection{
		Kind: kind, Window: length, Param: param, Node: w.node(0),
	})
	return &res.States[len(res.States)-1]
}

// addShard adds a shard to a state. Before the first one it adds the home.
func addShard(s *engine.Inspection, shard engine.Shard) {
	if len(s.Shards) == 0 {
		s.Shards = append(s.Shards, engine.Shard{Node: s.Node, Used: s.Used, Held: s.Used})
	}
	s.Used += shard.Used
	s.Shards = append(s.Shards, shard)
}

// resetTries is the number of attempts at a reset, which fail if shards get loans meanwhile.
const resetTries = 8

// reset makes all shards forget the key, then the home.
func (w *whole) reset() *Failure {
	w.forgetDenials()
	for try := range resetTries {
		reply, failure := w.home(&limit.Spec{})
		if failure != nil {
			return failure
		}
		reports, unreachable := w.s.collect(w.key, w.requests[0].Sent, wire.ShardOrder{Forget: true}, reply.Recalls)
		if len(unreachable) > 0 {
			return &Failure{Shard: unreachable[0], Why: "a shard of the key did not answer"}
		}
		var forgot wire.Forgot
		for _, p := range reports {
			if !p.Stale || try >= resetTries/2 { // if it is still stale then, home and shard contradict each other
				forgot.Shards = append(forgot.Shards, wire.Forgetful{Shard: p.Shard, Seq: p.Seq})
			}
		}
		var all wire.Forgotten
		c := &Call{Function: lua.Forget, Args: wire.Args(&forgot), Sent: w.requests[0].Sent}
		if failure := w.s.ask(w.key, c, func(reply string) error { return wire.Unpack(reply, &all) }); failure != nil {
			return failure
		}
		if all.Forgotten {
			w.requests[0].Result.Reset = true
			w.forgetDenials()
			return nil
		}
	}
	return &Failure{Why: "the key's shards kept getting loans"}
}

func (w *whole) forgetDenials() {
	if w.s.config.Denials != nil {
		w.s.config.Denials.Forget(w.key)
	}
}
