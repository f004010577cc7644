package split

import (
	"slices"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
)

// spread is how a key is split, as far as this proxy knows. Times are ms of Config.Now.
type spread struct {
	topology *backend.Topology // the topology for which numbers were chosen
	shards   int               // the number of shards: as wanted, or as the home says
	numbers  []int             // the numbers of the shards, the home's 0 first
	learned  bool              // only the home says that the key is split; nothing here wants it

	next  int     // the index in numbers of the shard whose turn it is
	turn  int     // how many more requests may go to it in this turn
	turns int     // turns since the key was idle for as long as a lease
	used  int64   // when this turn began
	dry   []int64 // by index in numbers: until when the shard is skipped, because it had no room and got no loan

	needed int64 // when a request last asked a shard, or the home last said that the key is split

	load  bool         // the key is split because of its load
	hot   int64        // when the load was last high enough
	rates map[int]rate // the latest rates, by shard number
}

// rate is the rate of charging calls that a shard has reported.
type rate struct {
	calls int64 // per second
	at    int64 // when the shard reported it
}

// memory returns the approximate memory, in bytes, of a spread and its key of that length.
func (l *spread) memory(key int) int { return key + 300 + 50*l.shards }

const (
	maxSpreads      = 4096
	maxSpreadMemory = 8 << 20 // bytes of all spreads together

	dryFor  = 10 // ms for which a shard without room is skipped
	maxTurn = 64 // most requests of one turn of a shard

	sweepEvery = 1000                // ms between two searches for spreads that are not needed any more
	keepFor    = leaseMs + coolAfter // ms for which a spread is kept that is not needed

	// turnFor is the length of a turn in ms, once all shards hold units. Before that, a turn lasts for 1 ms. Long turns
	// are faster, because the node's caches are cold at the first request of a turn.
	turnFor = 8
)

// choose returns the number of the shard, out of n, that r asks first. Requests with the same ID ask the same shard.
// Others ask the shard previous, to which equal requests before them went, if previous is not negative, else the next
// one in turn that may have room. If no shard has room, choose returns 0, the home.
func (s *Splitter) choose(r *engine.Request, n, previous int) int {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.spread(r.Key, n)
	l.learned, l.needed = false, now
	if len(r.ID) > 0 {
		return l.numbers[xxhash.Sum64(r.ID)%uint64(len(l.numbers))]
	}
	if previous >= 0 {
		l.turn--
		return previous
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

// spread returns the key's spread, or makes one for n shards if there is none. mu is held.
func (s *Splitter) spread(key []byte, n int) *spread {
	l := s.spreads[string(key)]
	if l == nil {
		l = &spread{shards: n, needed: s.now(), next: int(xxhash.Sum64(key) % uint64(n))} // #nosec G115 -- below n
		name := string(key)
		for other, old := range s.spreads { // drop any: it will be learned again
			if len(s.spreads) < maxSpreads && s.memory+l.memory(len(name)) <= maxSpreadMemory {
				break
			}
			s.drop(other, old)
		}
		s.spreads[name] = l
		s.memory += l.memory(len(name))
		s.count()
	}
	if top := s.nodes.Topology(); l.topology != top || len(l.numbers) != l.shards {
		l.topology, l.numbers = top, top.Spread(key, l.shards)
		l.dry, l.rates = make([]int64, len(l.numbers)), nil
		l.next %= len(l.numbers)
	}
	return l
}

// drop forgets a spread. From then on requests about its key go to the home, and leases expire. mu is held.
func (s *Splitter) drop(key string, l *spread) {
	delete(s.spreads, key)
	s.memory -= l.memory(len(key))
	s.count()
	if l.load {
		s.byLoad.Add(-1)
		s.config.Logger.Info("no longer splitting a key because of its load", "key", clientKey([]byte(key)))
	}
}

// sweep drops the spreads that have not been needed for a while, if the last sweep was long enough ago. While
// there is a spread, each request takes mu. mu is held.
func (s *Splitter) sweep(now int64) {
	if now-s.swept < sweepEvery {
		return
	}
	s.swept = now
	for key, l := range s.spreads {
		if now-l.needed > keepFor {
			s.drop(key, l)
		}
	}
}

// count updates known and PossiblySplit. mu is held.
func (s *Splitter) count() {
	s.known.Store(int64(len(s.spreads)))
	s.PossiblySplit.Store(int64(len(s.spreads) + len(s.live.Load().Rules)))
}

// learn stores the number of shards that the home says the key has. Below 2, the home says that the key is not split.
func (s *Splitter) learn(key []byte, shards int) {
	if shards < 2 && s.known.Load() == 0 {
		return
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep(now)
	switch l := s.spreads[string(key)]; {
	case shards > 1 && l == nil:
		s.spread(key, min(shards, engine.MaxShards)).learned = true
	case shards > 1:
		l.needed = now
		s.memory -= l.memory(len(key))
		l.shards = min(shards, engine.MaxShards)
		s.memory += l.memory(len(key))
	case l != nil && l.learned:
		s.drop(string(key), l)
	}
}

// lent records whether a shard that refused has got a loan.
func (s *Splitter) lent(key []byte, shard int, more bool) {
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.spreads[string(key)]
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

// Shards returns the number of shards of the key, as far as this proxy knows; 1 if it is not split.
func (s *Splitter) Shards(key []byte) int {
	if s.known.Load() == 0 {
		return 1
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.spreads[string(key)]; l != nil {
		return l.shards
	}
	return 1
}
