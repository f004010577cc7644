package split

import (
	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// The answers to the requests of one connection about a split key must be as if the requests had come one by one,
// although the key's shards and its home answer at different times. So equal requests of a pipeline go to one shard.
// Equal requests with IDs are an exception: each goes to the shard of its ID, because near the limit any of them may be
// the one that is denied. A request that differs from those before it waits for them.

// Routes holds the routes of the requests of one run: the requests of a pipeline that are sent
// at the same time. The zero Routes is an empty run.
type Routes struct {
	byKey map[uint64]route // by hash of the key
}

// route is the route of the first request about a key.
type route struct {
	first   *engine.Request
	shard   int  // the shard that first asks; 0 is the home
	waiting bool // shards are being recalled, so first joins the resolver and asks no shard
}

// Route returns the shard that a request asks first. waits is true if no shard should be asked, because none could
// admit the request: pass it to Resolve. ok is false if the request must wait until those of the run are answered.
func (s *Splitter) Route(rs *Routes, r *engine.Request) (shard int, waits, ok bool) {
	n := s.wanted(r)
	split := n > 1 || s.Shards(r.Key) > 1
	if !split && !r.ConcernsWholeKey() {
		return 0, false, true
	}
	hash := xxhash.Sum64(r.Key)
	at, found := rs.byKey[hash]
	if found && split && (r.Op == engine.OpReset || !r.Repeats(at.first)) {
		return 0, false, false
	}
	if !found {
		at = route{first: r, shard: -1, waiting: s.recalling(r)}
	}
	if at.waiting || n < 2 || r.Hold != nil { // the ids of holds are stored at the home
		at.shard = 0
	} else {
		at.shard = s.choose(r, n, at.shard)
	}
	if at.shard > 0 {
		top := s.nodes.Topology()
		if top.Nodes[top.Locate(r.Key, at.shard)].Down() {
			at.shard = 0
		}
	}
	if !found {
		if rs.byKey == nil {
			rs.byKey = make(map[uint64]route)
		}
		rs.byKey[hash] = at
	}
	return at.shard, at.waiting, true
}

// Splits reports whether the key of r is known to be split, or r wants it to be split.
func (s *Splitter) Splits(r *engine.Request) bool { return s.wanted(r) > 1 || s.Shards(r.Key) > 1 }

// recalling reports whether the resolver of r's limits is recalling shards, so that no shard could admit r.
func (s *Splitter) recalling(r *engine.Request) bool {
	if s.known.Load() == 0 || !lendable(r) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.resolvers[idOf(r)]
	return f != nil && f.recalling
}

// lendable reports whether shards may admit the request.
func lendable(r *engine.Request) bool {
	return r.Op == engine.OpDecide && r.Cost > 0 && r.Kind.Additive()
}

// resolverID identifies a resolver.
type resolverID struct {
	key  string     // the key's name
	spec limit.Spec // the limits, with cost 0
}

func idOf(r *engine.Request) resolverID {
	id := resolverID{string(r.Key), r.Spec}
	id.spec.Cost = 0
	return id
}
