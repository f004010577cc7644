package engine

import "github.com/cespare/xxhash/v2"

// One connection's requests about a split key are answered as if they had come one by
// one, although its parts and its home answer when they do. So requests of a pipeline that
// ask the same of it go to one part. Those with IDs go each to its own: near the limit any
// of these may be the one that is denied. One that asks something else waits for those
// before it.

// way is where the first request about a split key went in a run of a pipeline.
type way struct {
	first  int  // its index
	part   int  // that it asks first; 0: the home
	parked bool // the parts are being read: it waits for that and asks the home
}

// way returns where request i of a run goes, and false if it has to wait for those
// before it.
func (s *splits) way(p *Pipeline, i int, top *topology, now int64) (way, bool) {
	r := &p.Requests[i]
	n := s.wanted(r)
	split := n > 1 || s.parts(r.Key) > 1
	if !split && !r.reads() {
		return way{}, true
	}
	hash := xxhash.Sum64(r.Key)
	w, found := p.ways[hash]
	if first := &p.Requests[w.first]; found && split &&
		(r.Op == OpReset || first.question() != r.question() || string(first.Key) != string(r.Key)) {
		return way{}, false
	}
	if !found {
		w = way{first: i, part: -1, parked: s.reading(r)}
	}
	if w.parked || n < 2 {
		w.part = 0
	} else {
		w.part = s.choose(r, n, top, now, w.part)
	}
	if w.part > 0 && top.nodes[top.locate(r.Key, w.part)].health.down() {
		w.part = 0
	}
	if !found {
		if p.ways == nil {
			p.ways = make(map[uint64]way)
		}
		p.ways[hash] = w
	}
	return w, true
}

// reads tells whether the request speaks of all of its key: what comes after it on a
// key that is about to be split must not overtake it.
func (r *Request) reads() bool {
	return r.Op == OpReset || r.Op == OpInspect || r.Op <= OpFixed && r.Cost == 0
}
