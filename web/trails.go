package web

import (
	"hash/maphash"
	"sync"

	"github.com/rlproxy/rlproxy/engine/observe"
)

const (
	trailEvery  = 10 // rounds of the sampler between two moments
	maxMoments  = maxHistory / trailEvery
	momentsKeys = 64 // keys of a moment, the busiest
)

// tally is what had become of the requests about a key by a moment. Its counts are those of observe.HotKey.
type tally struct {
	Time      int64 `json:"t"` // Unix ms
	Rate      int64 `json:"rate"`
	Admitted  int64 `json:"admitted"`
	Denied    int64 `json:"denied"`
	Refused   int64 `json:"refused"`
	Fail      int64 `json:"fail"`
	Shadow    int64 `json:"shadow"`
	Limit     int64 `json:"limit"`
	Remaining int64 `json:"remaining"`
}

// trails keeps the tallies of the busiest keys of the last five minutes, so that a page that is opened shows what was
// before.
type trails struct {
	seed    maphash.Seed
	mu      sync.Mutex
	moments []map[uint64]tally // by the hash of the key, oldest first; guarded by mu; the maps are never modified
}

// add adds the newest moment.
func (t *trails) add(at int64, keys []observe.HotKey) {
	m := make(map[uint64]tally, len(keys))
	for i := range keys {
		k := &keys[i]
		m[maphash.Bytes(t.seed, k.Key)] = tally{at, round(k.Rate), k.Admitted, k.Denied, k.Refused, k.ByFail,
			k.ShadowDenied, k.Limit, k.Remaining}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.moments = append(t.moments[max(0, len(t.moments)-maxMoments+1):], m)
}

// of returns the tallies of a key, oldest first.
func (t *trails) of(key []byte) []tally {
	hash := maphash.Bytes(t.seed, key)
	t.mu.Lock()
	defer t.mu.Unlock()
	all := []tally{}
	for _, m := range t.moments {
		if p, ok := m[hash]; ok {
			all = append(all, p)
		}
	}
	return all
}
