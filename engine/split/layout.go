package split

import (
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// layout is how a key is split, as far as this proxy has seen.
type layout struct {
	topology *backend.Topology // that the numbers were chosen by
	shards   int               // as wanted, or as the home says
	numbers  []int             // of the shards, the home's 0 first
	learned  bool              // only the home says so: nobody here has asked for a split

	next  int     // the index of the shard that was asked last
	turn  int     // how many more requests may go there in a row
	turns int     // turns since the key was idle for as long as a lease
	used  int64   // ms when that shard's turn began
	dry   []int64 // ms until which a shard is passed over: it had no room and was lent none

	load  bool          // made by load
	hot   int64         // ms when there was last load enough
	rates map[int]int64 // charging calls per second, by shard
}

// memory returns the approximate memory, in bytes, of the layout of a key of that length.
func (l *layout) memory(key int) int { return key + 300 + 50*l.shards }

const (
	maxLayouts      = 4096
	maxLayoutMemory = 8 << 20 // bytes that all layouts take

	dryFor  = 10 // ms
	maxTurn = 64 // requests that go to one shard together

	// turnFor is the most ms for which they do, once all shards hold something: a
	// node's caches are cold at the first request of a turn.
	turnFor = 8
)

// choose returns the shard of n that r asks first: the same one for the same ID,
// else the one that equal requests before it ask, if that is not negative, else the
// next in turn that may have room. If none has it is 0, the home.
func (s *Splitter) choose(r *engine.Request, n, with int) int {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layout(r.Key, n)
	l.learned = false
	if len(r.ID) > 0 {
		return l.numbers[xxhash.Sum64(r.ID)%uint64(len(l.numbers))]
	}
	if with >= 0 {
		l.turn--
		return with
	}
	together := now == l.used || l.turns > 2*len(l.numbers) && now-l.used < turnFor
	if together && l.turn > 0 && l.dry[l.next] <= now {
		l.turn--
		return l.numbers[l.next]
	}
	if now-l.used > leaseMs {
		l.turns = 0
	}
	l.used, l.turn, l.turns = now, maxTurn, l.turns+1
	for range l.numbers {
		l.next = (l.next + 1) % len(l.numbers)
		if l.dry[l.next] <= now {
			return l.numbers[l.next]
		}
	}
	return 0
}

// layout returns the key's layout, made for n shards if there is none. mu is held.
func (s *Splitter) layout(key []byte, n int) *layout {
	l := s.layouts[string(key)]
	if l == nil {
		l = &layout{shards: n, next: int(xxhash.Sum64(key) % uint64(n))} // #nosec G115 -- below n
		name := string(key)
		for other, old := range s.layouts { // any: it is learned again
			if len(s.layouts) < maxLayouts && s.memory+l.memory(len(name)) <= maxLayoutMemory {
				break
			}
			s.drop(other, old)
		}
		s.layouts[name] = l
		s.memory += l.memory(len(name))
		s.count()
	}
	if top := s.nodes.Topology(); l.topology != top || len(l.numbers) != l.shards {
		l.topology, l.numbers = top, top.Spread(key, l.shards)
		l.dry = make([]int64, len(l.numbers))
		l.next %= len(l.numbers)
	}
	return l
}

// drop forgets a layout: from now on its key's home is asked, and leases end by
// themselves. mu is held.
func (s *Splitter) drop(key string, l *layout) {
	delete(s.layouts, key)
	s.memory -= l.memory(len(key))
	s.count()
	if l.load {
		s.byLoad.Add(-1)
	}
}

// count keeps the counts of known layouts. mu is held.
func (s *Splitter) count() {
	s.known.Store(int64(len(s.layouts)))
	s.Suspects.Store(int64(len(s.layouts) + len(s.live.Load().Rules)))
}

// learn takes over the number of shards that the home says there are; below 2,
// nothing is lent.
func (s *Splitter) learn(key []byte, shards int) {
	if shards < 2 && s.known.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.layouts[string(key)]; {
	case shards > 1 && l == nil:
		s.layout(key, min(shards, engine.MaxShards)).learned = true
	case shards > 1:
		s.memory -= l.memory(len(key))
		l.shards = min(shards, engine.MaxShards)
		s.memory += l.memory(len(key))
	case l != nil && l.learned:
		s.drop(string(key), l)
	}
}

// lent notes whether a shard that refused was lent more.
func (s *Splitter) lent(key []byte, shard int, more bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layouts[string(key)]
	if l == nil {
		return
	}
	i := slices.Index(l.numbers, shard)
	if i < 0 {
		return
	}
	if l.dry[i] = 0; !more {
		l.dry[i] = now + dryFor
	}
}

// Shards returns over how many shards the key is split, as far as is known here.
func (s *Splitter) Shards(key []byte) int {
	if s.known.Load() == 0 {
		return 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.layouts[string(key)]; l != nil {
		return l.shards
	}
	return 1
}
