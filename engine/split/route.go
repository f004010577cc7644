package split

import (
	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// Requests of one connection about a split key are answered as if they had come one
// by one, although the key's shards and its home answer when they do. So requests of
// a pipeline that ask the same of it go to one shard. Those with IDs go each to its
// own: near the limit any of these may be the one that is denied. A request that
// asks something else waits for those before it.

// Routes is where the requests of one run went: the requests of a pipeline that are
// asked at the same time. The zero Routes is of an empty run.
type Routes struct {
	byKey map[uint64]route // by hash of the key
}

// route is where the first request about a key went.
type route struct {
	first   *engine.Request
	shard   int  // that it asks first; 0 is the home
	waiting bool // shards are being recalled: it joins that and asks the home
}

// Route returns the shard that a request asks first. waits is true if no shard should
// be asked, because none could admit it: the request is for Resolve. ok is false if the
// request has to come after those of the run.
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
	if at.waiting || n < 2 || r.Hold != nil { // the home has the ids
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

// Splits reports whether the key of r is known to be split, or will be for r.
func (s *Splitter) Splits(r *engine.Request) bool { return s.wanted(r) > 1 || s.Shards(r.Key) > 1 }

// recalling reports whether the resolver of r's limits is recalling shards, so that none
// could admit r.
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

// resolverID names a resolver: a client key, and the limits that are asked about.
type resolverID struct {
	key  string
	spec limit.Spec // without cost
}

func idOf(r *engine.Request) resolverID {
	id := resolverID{string(r.Key), r.Spec}
	id.spec.Cost = 0
	return id
}
