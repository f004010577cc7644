package engine

import (
	"slices"

	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
)

// What speaks of all of a split key: questions without cost, RL.INSPECT and RL.RESET.

// whole takes items of one entry, at whose key the home has lent, to the home and all
// parts.
func (s *splits) whole(items []item) {
	s.under.Add(1)
	go func() { // until the items are answered
		defer s.under.Done()
		w := &wholeKey{engine: s.engine, items: items, req: items[0].req}
		w.key = append(w.key, w.req.Key...)
		switch w.req.Op {
		case OpReset:
			w.reset()
		case OpInspect:
			w.inspect()
		default:
			w.peek()
		}
		answered(items)
	}()
}

// wholeKey is such a reading.
type wholeKey struct {
	engine *Redis
	items  []item
	req    *Request
	key    []byte
	wait   waiter
}

// home asks the home who holds what, of r's windows, if it is one with windows. If the home
// cannot answer, the items are.
func (w *wholeKey) home(r *Request) (*homeAnswer, bool) {
	q := r.question()
	ask := &shard.Ask{Pairs: r.pairs(), Strict: r.Strict}
	list := w.engine.script(lua.Lend, w.key, 0, appendUint(appendUint(nil, 1, 4), 1, 2), q.append(nil), nil, nil, nil)
	w.engine.call(w.key, &w.wait, list)
	read := reader{list.reply, list.why == ""}
	if read.ok {
		if a := read.answer(ask, nil); read.ok {
			return a, true
		}
		list.why = errReply.Error()
	}
	w.refuse(list.node, list.why)
	return nil, false
}

func (w *wholeKey) refuse(n *node, why string) {
	for i := range w.items {
		n.refuse(&w.items[i], why)
	}
}

// all is a question about all windows.
func (w *wholeKey) all() *Request { return &Request{Op: OpReset, Key: w.key} }

// recalls are those that the home named, by part.
func (a *homeAnswer) recalls() map[int]shard.Recall {
	to := make(map[int]shard.Recall, len(a.Recall))
	for _, r := range a.Recall {
		to[r.Part] = r
	}
	return to
}

// peek answers what is used by all together. What a part may hold counts when it does
// not say what it uses, or does not know any more.
func (w *wholeKey) peek() {
	a, ok := w.home(w.req)
	if !ok {
		return
	}
	r := w.req
	to := a.recalls()
	for part, recall := range to {
		recall.States, recall.Strict = nil, r.Strict
		for _, p := range r.pairs() {
			recall.States = append(recall.States, p.State)
		}
		to[part] = recall
	}
	reads, _ := w.engine.readParts(w.key, doPeek, to, &w.wait)
	p := &party{items: w.items, reads: map[int]*reported{}}
	for _, read := range reads {
		p.reads[read.Part] = read
	}
	var vs [MaxWindows]verdict
	granted := int64(len(w.items))
	for i := range a.tallies {
		t := &a.tallies[i]
		t.used, t.lent = t.own, 0
		for _, l := range a.lent {
			if read := p.reads[l.part]; read != nil && read.Born == l.born {
				l.out[i] = read.of(r.splitState(r.Windows[i])).used
			}
			t.used += l.out[i]
			t.lent += l.out[i]
		}
		if t.used >= r.Windows[i].Limit {
			granted = 0
		}
		vs[i] = t.verdict()
		vs[i].retry = p.retry(i, t, a, w.engine.elapsed().Milliseconds())
	}
	for j := range w.items {
		w.items[j].res.Decision = r.decide(vs[:r.N], a.clock, granted, int64(j), resetOf(r.Op))
	}
}

// inspect adds what the parts hold to what the home has said of its states.
func (w *wholeKey) inspect() {
	a, ok := w.home(w.all())
	if !ok {
		return
	}
	to := a.recalls()
	reads, _ := w.engine.readParts(w.key, doPeek, to, &w.wait)
	res := w.items[0].res
	for _, l := range a.lent {
		i := slices.IndexFunc(reads, func(r *reported) bool { return r.Part == l.part && r.Born == l.born })
		if i < 0 {
			if !w.missing(l.part, to[l.part].States) {
				return
			}
			continue
		}
		read := reads[i]
		for i, u := range read.Used {
			s := res.state(u.State, w.items[0].node)
			s.Rate += read.rate[i]
			if s.Limit == 0 {
				s.Limit = read.limit[i]
			}
			s.add(Part{Part: read.Part, Node: read.node.name, Held: read.held[i], Used: u.N, Lease: read.lease})
		}
	}
	for i := range res.States {
		s := &res.States[i]
		slices.SortFunc(s.Parts, func(a, b Part) int { return a.Part - b.Part })
		s.Remaining = max(s.Limit-s.Used, 0)
	}
	sortStates(res.States)
}

// missing adds a part that cannot be reached, or has lost what it knew: all that it was lent
// counts. It returns false if the home cannot tell.
func (w *wholeKey) missing(part int, states []shard.State) bool {
	top := w.engine.topology.Load()
	node := top.locate(w.key, part)
	for _, name := range states {
		r := Request{Op: Op(name.Kind), Key: w.key, N: 1, Buckets: max(name.Buckets, 1)}
		r.Windows[0] = Window{Limit: MaxLimit, Length: name.Window}
		a, ok := w.home(&r)
		if !ok {
			return false
		}
		for _, l := range a.lent {
			if l.part == part && l.out[0] > 0 {
				w.items[0].res.state(name, w.items[0].node).add(Part{Part: part, Node: top.nodes[node].name, Held: l.out[0], Used: l.out[0]})
			}
		}
	}
	return true
}

// add adds a part, after the home.
func (s *State) add(p Part) {
	if len(s.Parts) == 0 {
		s.Parts = append(s.Parts, Part{Node: s.Node, Used: s.Used, Held: s.Used})
	}
	s.Used += p.Used
	s.Parts = append(s.Parts, p)
}

// state returns the result's state of that name, added if the home n itself has
// admitted nothing of it.
func (res *Result) state(name shard.State, n *node) *State {
	buckets := max(name.Buckets, 1)
	for i := range res.States {
		if s := &res.States[i]; byte(s.Op) == name.Kind && s.Window == name.Window && s.Buckets == buckets {
			return s
		}
	}
	res.States = append(res.States, State{Op: Op(name.Kind), Window: name.Window, Buckets: buckets, Node: n.name})
	return &res.States[len(res.States)-1]
}

// resetTries is how often a reset is tried while parts are lent to.
const resetTries = 8

// reset lets all parts forget, then the home.
func (w *wholeKey) reset() {
	e := w.engine
	e.denied.forget(w.key)
	for range resetTries {
		a, ok := w.home(w.all())
		if !ok {
			return
		}
		reads, away := e.readParts(w.key, doForget, a.recalls(), &w.wait)
		if len(away) > 0 {
			node := e.topology.Load().locate(w.key, away[0])
			w.refuse(e.topology.Load().nodes[node], "a part of the key is there")
			return
		}
		var forgot []byte
		for _, r := range reads {
			if !r.Stale {
				forgot = appendUint(appendUint(forgot, int64(r.Part), 4), r.Seq, 7)
			}
		}
		end := e.script(lua.Forget, w.key, 0, forgot)
		e.call(w.key, &w.wait, end)
		if end.why != "" {
			w.refuse(end.node, end.why)
			return
		}
		if end.reply == "\x01" {
			w.items[0].res.Reset = true
			e.denied.forget(w.key)
			return
		}
	}
	w.refuse(w.items[0].node, "the key's parts are lent to all the time")
}
