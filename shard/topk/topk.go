// Package topk finds the busiest keys of a stream in bounded memory.
//
// It is Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent and Top-k Elements in Data
// Streams", 2005) over decisions that decay, so that it reports rates and not totals. A Tracker has places for k keys.
// A key that is not tracked takes a free place, or that of a key whose decisions have almost decayed. If there is no
// such place, its decisions are counted in a filter (filter.go), and with the tenth it takes the place of the least
// busy key. So a stream of keys that are each seen once leaves the tracked keys in place and costs little.
//
// A key inherits the weight of the one that it replaces, because it may have been just as busy before. The inherited
// weight keeps it from being replaced at once, but is not reported. A reported rate counts the decisions since the key
// got its place, and the ten that earned the place. Because keys share counters in the filter, up to nine of those ten
// may have been about other keys. With N decisions per second over all keys, the inherited rate is at most N/k, and a
// key with a higher rate than that keeps its place.
//
// Decisions decay by a factor of e per time constant: a rate is the sum of exp(-age/constant) over all decisions,
// divided by the constant. Decaying every count at every step would be slow. Instead new decisions weigh more, by
// exp((now-epoch)/constant), and the epoch moves before the weights grow too large for a float.
//
// Reading order: topk.go (this file), filter.go.
package topk

import (
	"math"
	"slices"
)

const (
	// admit is the number of decisions that earn a key a place if none is free.
	admit = 10
	// forgotten is the number of decayed decisions below which a key is not reported and any
	// other key may take its place.
	forgotten = 0.1
)

// Tracker tracks the busiest keys. It is not safe for concurrent use.
type Tracker struct {
	constant float64 // Time constant of the decay, in ms.
	epoch    int64   // Time at which a decision weighs 1, in ms.
	now      int64   // Newest time observed, in ms.
	weight   float64 // Weight of a decision at now.

	keys   []tracked
	index  map[uint64]int32 // Position in keys by the hash of the key.
	heap   []int32          // Positions in keys, a min-heap by heapWeight.
	others filter           // Decisions on keys that are not tracked.
}

// Decisions counts the decisions on one key by outcome, and has the last answer.
type Decisions struct {
	All      int64 // Decisions of whatever outcome.
	Admitted int64 // Requests that were admitted by the key's state.
	Denied   int64 // Requests that were denied by a limit.
	ByFail   int64 // Answers by a FAIL policy. Those in Denied as well were denied by what the proxy had counted.
	Refused  int64 // Answers in ByFail that were denials or errors because no node answered.

	Shadow       int64 // Decisions on the key's shadow, not counted in the fields above.
	ShadowDenied int64 // Decisions in Shadow that would have been denied.
	Drawn        int64 // Decisions in Admitted that no node was asked about.

	Limit     int64 // Limit in the last answer. A shadow's answer counts only until the key itself has one.
	Remaining int64 // Units that remained of Limit in the last answer; -1 if unknown.

	Lapsed  int64 // Holds that lapsed. They are not decisions.
	Overrun int64 // Units charged beyond those held.
}

// tracked is a tracked key. The key that replaces it reuses its memory.
type tracked struct {
	key        []byte
	hash       uint64
	weight     float64 // Weighted decisions, including those inherited.
	heapWeight float64 // Value of weight when the heap was last ordered by it; weight never falls below it.
	inherited  float64 // Weight of the replaced key.
	denied     float64 // Weighted denials.
	seen       Decisions
}

// Key is a tracked key as Keys reports it.
type Key struct {
	Key        []byte
	Rate       float64   // Decisions per second, decayed, without the inherited weight.
	DeniedRate float64   // Denials per second, decayed.
	Seen       Decisions // Exact counts since the key got its place.
}

// New returns a Tracker of at most k keys whose decisions decay by a factor of e per constant, in ms. A constant of
// 10,000 follows a change of the load within about ten seconds and smooths shorter bursts.
func New(k int, constant int64) *Tracker {
	return &Tracker{constant: float64(constant), weight: 1, keys: make([]tracked, 0, k),
		index: make(map[uint64]int32, k), heap: make([]int32, 0, k)}
}

// Observe counts decisions on a key at the time now, in ms. A time before the newest one
// counts as the newest. If d has no decisions, its other fields are counted only for a key
// that is already tracked. hash is a hash of the key, all 64 bits of which must be good.
//
// For a tracked key Observe does one map lookup and does not allocate. For most other keys it
// does a few additions. At most one decision in ten on them costs O(log k), amortized: each
// step that repairs the heap is for a weight that an earlier call has changed.
func (t *Tracker) Observe(key []byte, hash uint64, d *Decisions, now int64) {
	t.advance(now)
	n := d.All + d.Shadow
	i, found := t.index[hash]
	if !found {
		if n == 0 {
			return
		}
		if i, found = t.track(hash, &n); !found {
			return
		}
		t.index[hash] = i
		k := &t.keys[i]
		k.key, k.hash, k.denied, k.seen = append(k.key[:0], key...), hash, 0, Decisions{}
	}
	k := &t.keys[i]
	if string(k.key) != string(key) {
		return // Two keys share a 64-bit hash. The first one stays tracked.
	}
	k.weight += float64(n) * t.weight
	k.denied += float64(d.Denied) * t.weight
	k.seen.All += d.All
	k.seen.Admitted += d.Admitted
	k.seen.Denied += d.Denied
	k.seen.ByFail += d.ByFail
	k.seen.Refused += d.Refused
	k.seen.Lapsed += d.Lapsed
	k.seen.Overrun += d.Overrun
	k.seen.Shadow += d.Shadow
	k.seen.ShadowDenied += d.ShadowDenied
	k.seen.Drawn += d.Drawn
	if d.All > 0 || d.Shadow > 0 && k.seen.All == 0 {
		k.seen.Limit, k.seen.Remaining = d.Limit, d.Remaining
	}
}

// track returns a position in keys for a key that is not tracked. ok is false if its n decisions, with those in the
// filter, do not earn it one. If the filter's decisions were needed, track adds them to n.
func (t *Tracker) track(hash uint64, n *int64) (i int32, ok bool) {
	switch {
	case len(t.keys) < cap(t.keys):
		return t.add(), true
	case t.stale():
		return t.evict(), true
	}
	if t.others.add(hash, *n) < admit {
		return 0, false
	}
	t.others.forget(hash) // so that a key that loses its place again must earn the next one
	*n = max(*n, admit)
	return t.evict(), true
}

// advance moves the clock to now. It moves the epoch too when weights have grown large.
func (t *Tracker) advance(now int64) {
	if now <= t.now {
		return
	}
	t.now = now
	age := float64(now-t.epoch) / t.constant
	if age < 200 { // exp(200) times the largest count is far below the largest float64.
		t.weight = math.Exp(age)
		return
	}
	t.epoch, t.weight = now, 1
	decay := math.Exp(-age)
	for i := range t.keys {
		k := &t.keys[i]
		k.weight, k.heapWeight = k.weight*decay, k.heapWeight*decay
		k.inherited, k.denied = k.inherited*decay, k.denied*decay
	}
}

// add returns a new position in keys. Its heap weight is 0, as are all others until no place is free.
func (t *Tracker) add() int32 {
	i := int32(len(t.keys))
	t.keys = append(t.keys, tracked{})
	t.heap = append(t.heap, i)
	return i
}

// stale reports whether the least busy key is forgotten. It repairs the heap as far as it needs to know.
func (t *Tracker) stale() bool {
	for {
		k := &t.keys[t.heap[0]]
		switch {
		case k.weight < forgotten*t.weight:
			return true
		case k.heapWeight >= forgotten*t.weight:
			return false
		}
		k.heapWeight = k.weight
		t.sink()
	}
}

// evict stops tracking the least busy key and returns its position. The key that takes
// the position inherits the weight.
func (t *Tracker) evict() int32 {
	for {
		k := &t.keys[t.heap[0]]
		if k.heapWeight == k.weight {
			delete(t.index, k.hash)
			k.inherited = k.weight
			if cap(k.key) > 256 {
				k.key = nil // Do not keep the memory of one long key forever.
			}
			return t.heap[0]
		}
		k.heapWeight = k.weight
		t.sink()
	}
}

// sink restores the heap's order after the heap weight of the root has grown.
func (t *Tracker) sink() {
	for at := 0; ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(t.heap); child++ {
			if t.keys[t.heap[child]].heapWeight < t.keys[t.heap[least]].heapWeight {
				least = child
			}
		}
		if least == at {
			return
		}
		t.heap[at], t.heap[least] = t.heap[least], t.heap[at]
		at = least
	}
}

// Keys returns the tracked keys that are not forgotten at the time now, in ms, in any order.
// The caller may keep the keys' bytes.
func (t *Tracker) Keys(now int64) []Key {
	t.advance(now)
	var keys []Key
	for i := range t.keys {
		k := &t.keys[i]
		own := k.weight - k.inherited
		if own < forgotten*t.weight {
			continue
		}
		keys = append(keys, Key{
			Key: slices.Clone(k.key), Rate: t.rate(own), DeniedRate: t.rate(k.denied), Seen: k.seen,
		})
	}
	return keys
}

// rate converts a weight to decisions per second.
func (t *Tracker) rate(weight float64) float64 {
	return weight / t.weight / t.constant * 1000
}
