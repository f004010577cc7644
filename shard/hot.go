package shard

import (
	"math"
	"slices"

	"github.com/cespare/xxhash/v2"
)

// Hot finds the busiest keys of a stream in bounded memory: Space-Saving (Metwally,
// Agrawal, El Abbadi 2005) over decisions that fade with time, so that it answers a
// rate. It watches k keys; a key that is not watched takes the place of the least
// busy one and inherits its rate as the error.
//
// With N decisions/s over all keys, a watched key's true rate is between Rate - Error
// and Rate, Error is at most N/k, and every key with more than N/k is watched. Admitted
// and Denied are exact since the key was last taken in. Not safe for concurrent use.
//
// Decisions fade by e every Hot's time constant: a count of decisions, each times
// exp(-age/constant), divided by the constant is a rate. To fade nothing on the way,
// new decisions weigh more instead, exp((now-epoch)/constant), and the epoch is moved
// before that grows too large for a float.
type Hot struct {
	constant float64 // ms
	epoch    int64   // ms, when a decision weighs 1
	now      int64   // ms, newest time observed
	weight   float64 // of a decision at now
	total    float64 // weighted, of all keys

	keys  []hotKey
	index map[uint64]int32 // place in keys, by hash of the key
	heap  []int32          // places, least known weight first; weights may have grown since
}

// hotKey is a watched key. Its memory is used again for the key that displaces it.
type hotKey struct {
	key              []byte
	hash             uint64
	weight           float64 // weighted decisions, the inherited included
	known            float64 // weight when the heap last saw it
	inherited        float64
	admitted, denied int64
}

// HotKey is what Top tells of a key.
type HotKey struct {
	Key      []byte
	Rate     float64 // decisions/s, never too low
	Error    float64 // by how much at most it is too high
	Admitted int64   // since the key is watched
	Denied   int64
}

// NewHot watches at most k keys, and forgets by e every constant, in ms: 10,000 follows
// a change within some ten seconds, and smooths what is shorter.
func NewHot(k int, constant int64) *Hot {
	return &Hot{constant: float64(constant), weight: 1, keys: make([]hotKey, 0, k),
		index: make(map[uint64]int32, k), heap: make([]int32, 0, k)}
}

// Observe counts decisions on a key at a time, in ms; a time before the newest counts
// as the newest. For a watched key this is one look-up and no allocation; another costs
// O(log k), and what it has to repair in the heap was caused by as many look-ups.
func (h *Hot) Observe(key []byte, admitted, denied, now int64) {
	h.advance(now)
	added := float64(admitted+denied) * h.weight
	h.total += added
	hash := xxhash.Sum64(key)
	i, watched := h.index[hash]
	if !watched {
		if len(h.keys) < cap(h.keys) {
			i = h.watch()
		} else {
			i = h.displace()
		}
		h.index[hash] = i
		k := &h.keys[i]
		k.key, k.hash, k.admitted, k.denied = append(k.key[:0], key...), hash, 0, 0
	}
	k := &h.keys[i]
	if string(k.key) != string(key) {
		return // two keys with one 64-bit hash: the first is watched
	}
	k.weight += added
	k.admitted += admitted
	k.denied += denied
}

// Watches tells whether the key is watched, or would be without displacing another.
func (h *Hot) Watches(key []byte) bool {
	if len(h.keys) < cap(h.keys) {
		return true
	}
	_, watched := h.index[xxhash.Sum64(key)]
	return watched
}

// advance moves the newest time, and the epoch when weights grow large.
func (h *Hot) advance(now int64) {
	if now <= h.now {
		return
	}
	if h.now == 0 {
		h.epoch = now
	}
	h.now = now
	age := float64(now-h.epoch) / h.constant
	if age < 200 { // exp(200) times the largest counts is far from the largest float
		h.weight = math.Exp(age)
		return
	}
	h.epoch, h.weight = now, 1
	fade := math.Exp(-age)
	h.total *= fade
	for i := range h.keys {
		k := &h.keys[i]
		k.weight, k.known, k.inherited = k.weight*fade, k.known*fade, k.inherited*fade
	}
}

// watch takes an empty place. Its known weight is 0: the top of the heap.
func (h *Hot) watch() int32 {
	i := int32(len(h.keys))
	h.keys = append(h.keys, hotKey{})
	h.heap = append(h.heap, i)
	for at := len(h.heap) - 1; at > 0; { // up to the root
		up := (at - 1) / 2
		h.heap[at], h.heap[up] = h.heap[up], h.heap[at]
		at = up
	}
	return i
}

// displace frees the place of the least busy key, whose weight the next one inherits.
func (h *Hot) displace() int32 {
	for {
		k := &h.keys[h.heap[0]]
		if k.known == k.weight {
			delete(h.index, k.hash)
			k.inherited = k.weight
			if cap(k.key) > 256 {
				k.key = nil // one long key must not hold its memory for ever
			}
			return h.heap[0]
		}
		k.known = k.weight
		h.sink()
	}
}

// sink restores the order after the root's known weight grew.
func (h *Hot) sink() {
	for at := 0; ; {
		least := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(h.heap); child++ {
			if h.keys[h.heap[child]].known < h.keys[h.heap[least]].known {
				least = child
			}
		}
		if least == at {
			return
		}
		h.heap[at], h.heap[least] = h.heap[least], h.heap[at]
		at = least
	}
}

// Top returns the n busiest keys as of a time in ms, busiest first. The keys' bytes
// are copies.
func (h *Hot) Top(n int, now int64) []HotKey {
	h.advance(now)
	order := make([]int32, len(h.keys))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		switch {
		case h.keys[a].weight > h.keys[b].weight:
			return -1
		case h.keys[a].weight < h.keys[b].weight:
			return 1
		}
		return slices.Compare(h.keys[a].key, h.keys[b].key)
	})
	top := make([]HotKey, 0, min(n, len(order)))
	for _, i := range order[:cap(top)] {
		k := &h.keys[i]
		top = append(top, HotKey{Key: slices.Clone(k.key), Rate: h.rate(k.weight), Error: h.rate(k.inherited),
			Admitted: k.admitted, Denied: k.denied})
	}
	return top
}

// Rate returns decisions/s over all keys, as of the newest time observed.
func (h *Hot) Rate() float64 { return h.rate(h.total) }

func (h *Hot) rate(weight float64) float64 {
	return weight / h.weight / h.constant * 1000
}
