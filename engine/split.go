package engine

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/shard"
)

// A split key's requests go to its parts first, in the same batches as all others. What
// a part does not admit is taken to the key's home by a flight (split_flight.go), which
// reads the other parts if there is no room. package shard says what home and parts do
// and why that never admits too much; lua/home.lua and lua/part.lua do it.

// splitRules are those of lua/split.lua and lua/home.lua.
var splitRules = shard.Rules{Lease: 1000, Grace: 20}

// splits is what is known here of keys that are split, and the flights under way.
// Nothing of it decides: a proxy that knows less asks more often.
type splits struct {
	engine *Redis

	mu      sync.Mutex
	layouts map[string]*layout    // by client key, guarded by mu
	flights map[flightKey]*flight // guarded by mu
	known   atomic.Int64          // len(layouts)
	byLoad  atomic.Int64          // of these, those that load has made
	under   sync.WaitGroup        // goroutines of flights and readings

	asked, loans, recalls, readings atomic.Int64 // for INFO
}

// layout is how a key is split, as far as this proxy has seen.
type layout struct {
	top     *topology // that numbers were chosen by
	parts   int       // as wanted, or as the home says
	numbers []int     // of the parts, the home's 0 first
	next    int       // the index of the part that was asked last
	turn    int       // how many more requests may go there in a row
	dry     []int64   // ms until which a part is passed over: it had no room and got none
	used    int64     // ms when that part's turn began
	turns   int       // since the key was idle for as long as a lease
	told    bool      // only the home says so: nobody here has asked for a split

	load  bool          // made by load
	hot   int64         // ms when there was load enough
	rates map[int]int64 // charging calls per second, by part
}

const (
	maxLayouts = 4096
	dryFor     = 10 // ms
	maxTurn    = 64 // requests that go to one part together
	turnFor    = 8  // ms, at most, in which they do, once all parts hold something: a node's caches are cold at the first
)

// choose returns the part of n that r asks first: the same one for the same ID; else the
// one that requests with it ask, if that is not negative; else the next in turn that may
// have room, 0, the home, if none has.
func (s *splits) choose(r *Request, n int, top *topology, now int64, with int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layout(r.Key, n, top)
	l.told = false
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
	if now-l.used > splitRules.Lease {
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

// layout returns the key's layout, made for n parts if there is none. mu is held.
func (s *splits) layout(key []byte, n int, top *topology) *layout {
	l := s.layouts[string(key)]
	if l == nil {
		if len(s.layouts) >= maxLayouts {
			for other, old := range s.layouts { // any: it is learned again
				s.drop(other, old)
				break
			}
		}
		l = &layout{parts: n, next: int(xxhash.Sum64(key) % uint64(n))} // #nosec G115 -- below n
		s.layouts[string(key)] = l
		s.known.Store(int64(len(s.layouts)))
	}
	if l.top != top || len(l.numbers) != l.parts {
		l.top, l.numbers = top, top.spread(key, l.parts)
		l.dry = make([]int64, len(l.numbers))
		l.next %= len(l.numbers)
	}
	return l
}

// learn notes how many parts the home says there are; below 2, nothing is lent.
func (s *splits) learn(key []byte, parts int) {
	if parts < 2 && s.known.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch l := s.layouts[string(key)]; {
	case parts > 1 && l == nil:
		s.layout(key, parts, s.engine.topology.Load()).told = true
	case parts > 1:
		l.parts = parts
	case l != nil && l.told:
		s.drop(string(key), l)
	}
}

// lent notes whether the part that missed was lent more.
func (s *splits) lent(key []byte, part int, more bool) {
	now := s.engine.elapsed().Milliseconds()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.layouts[string(key)]
	if l == nil {
		return
	}
	i := slices.Index(l.numbers, part)
	if i < 0 {
		return
	}
	if l.dry[i] = 0; !more {
		l.dry[i] = now + dryFor
	}
}

// parts returns over how many parts the key is split, as far as is known here.
func (s *splits) parts(key []byte) int {
	if s.known.Load() == 0 {
		return 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.layouts[string(key)]; l != nil {
		return l.parts
	}
	return 1
}
