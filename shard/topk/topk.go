// Package topk finds the busiest keys of a stream in bounded memory.
//
// It is Space-Saving (Metwally, Agrawal, El Abbadi: "Efficient Computation of Frequent
// and Top-k Elements in Data Streams", 2005) over decisions that decay, so that it
// reports rates and not totals. A Tracker keeps k keys. A key that is not tracked
// replaces the least busy one and inherits its rate as the error of its own.
//
// With N decisions per second over all keys, the true rate of a tracked key lies between
// Rate - Error and Rate, Error is at most N/k, and every key with more than N/k is
// tracked.
//
// Decisions decay by a factor of e per time constant: a rate is the sum of
// exp(-age/constant) over all decisions, divided by the constant. Decaying every count
// at every step would be slow. Instead new decisions weigh more, by
// exp((now-epoch)/constant), and the epoch moves before the weights grow too large for a
// float.
package topk

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Tracker tracks the busiest keys. It is not safe for concurrent use.
type Tracker struct {
	constant float64 // Time constant of the decay, in ms.
	epoch    int64   // Time at which a decision weighs 1, in ms.
	now      int64   // Newest time observed, in ms.
	weight   float64 // Weight of a decision at now.
	total    float64 // Weighted decisions on all keys.

	keys  []tracked
	index map[uint64]int32 // Position in keys by the hash of the key.
	heap  []int32          // Positions in keys, a min-heap by heapWeight.
}

// tracked is a tracked key. The key that replaces it reuses its memory.
type tracked struct {
	key              []byte
	hash             uint64
	weight           float64 // Weighted decisions, including those inherited.
	heapWeight       float64 // Value of weight when the heap was last ordered by it; weight never falls below it.
	inherited        float64 // Weight of the replaced key: the largest possible error.
	admitted, denied int64
}

// Key is a tracked key as Top reports it.
type Key struct {
	Key      []byte
	Rate     float64 // Decisions per second; never below the true rate.
	Error    float64 // Upper bound of Rate minus the true rate.
	Admitted int64   // Admissions since tracking began, exact.
	Denied   int64   // Denials since tracking began, exact.
}

// New returns a Tracker of at most k keys whose decisions decay by a factor of e per
// constant, in ms. A constant of 10,000 follows a change of the load within about ten
// seconds and smooths shorter bursts.
func New(k int, constant int64) *Tracker {
	return &Tracker{constant: float64(constant), weight: 1, keys: make([]tracked, 0, k),
		index: make(map[uint64]int32, k), heap: make([]int32, 0, k)}
}

// Observe counts decisions on a key at the time now, in ms. A time before the newest one
// counts as the newest. For a tracked key this is one map lookup without an allocation.
// For another it is O(log k) amortized: each repair of the heap pays for a change of
// weight that a lookup made before.
func (t *Tracker) Observe(key []byte, admitted, denied, now int64) {
	t.advance(now)
	added := float64(admitted+denied) * t.weight
	t.total += added
	hash := xxhash.Sum64(key)
	i, found := t.index[hash]
	if !found {
		if len(t.keys) < cap(t.keys) {
			i = t.add()
		} else {
			i = t.evict()
		}
		t.index[hash] = i
		k := &t.keys[i]
		k.key, k.hash, k.admitted, k.denied = append(k.key[:0], key...), hash, 0, 0
	}
	k := &t.keys[i]
	if string(k.key) != string(key) {
		return // Two keys share a 64-bit hash. The first one stays tracked.
	}
	k.weight += added
	k.admitted += admitted
	k.denied += denied
}

// Tracks reports whether the key is tracked, or would be without evicting another.
func (t *Tracker) Tracks(key []byte) bool {
	if len(t.keys) < cap(t.keys) {
		return true
	}
	_, found := t.index[xxhash.Sum64(key)]
	return found
}

// advance moves the clock to now. It moves the epoch too when weights have grown large.
func (t *Tracker) advance(now int64) {
	if now <= t.now {
		return
	}
	if t.now == 0 {
		t.epoch = now
	}
	t.now = now
	age := float64(now-t.epoch) / t.constant
	if age < 200 { // exp(200) times the largest count is far below the largest float64.
		t.weight = math.Exp(age)
		return
	}
	t.epoch, t.weight = now, 1
	decay := math.Exp(-age)
	t.total *= decay
	for i := range t.keys {
		k := &t.keys[i]
		k.weight, k.heapWeight, k.inherited = k.weight*decay, k.heapWeight*decay, k.inherited*decay
	}
}

// add returns a new position in keys. Its heap weight is 0, so it goes to the heap's root.
func (t *Tracker) add() int32 {
	i := int32(len(t.keys))
	t.keys = append(t.keys, tracked{})
	t.heap = append(t.heap, i)
	for at := len(t.heap) - 1; at > 0; {
		up := (at - 1) / 2
		t.heap[at], t.heap[up] = t.heap[up], t.heap[at]
		at = up
	}
	return i
}

// evict stops tracking the least busy key and returns its position. The key that takes
// it inherits the weight.
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

// Top returns the n busiest keys at the time now, in ms, the busiest first. The caller
// may keep the keys' bytes.
func (t *Tracker) Top(n int, now int64) []Key {
	t.advance(now)
	order := make([]int32, len(t.keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case t.keys[a].weight > t.keys[b].weight:
			return -1
		case t.keys[a].weight < t.keys[b].weight:
			return 1
		}
		return slices.Compare(t.keys[a].key, t.keys[b].key)
	})
	top := make([]Key, 0, min(n, len(order)))
	for _, i := range order[:cap(top)] {
		k := &t.keys[i]
		top = append(top, Key{Key: slices.Clone(k.key), Rate: t.rate(k.weight), Error: t.rate(k.inherited),
			Admitted: k.admitted, Denied: k.denied})
	}
	return top
}

// Rate returns the decisions per second over all keys at the newest time observed.
func (t *Tracker) Rate() float64 { return t.rate(t.total) }

func (t *Tracker) rate(weight float64) float64 {
	return weight / t.weight / t.constant * 1000
}
