package engine

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/shard"
)

// HotKey is what RL.HOTKEYS tells of one key.
type HotKey struct {
	Key      []byte
	Rate     int64 // decisions per second, admitted and denied
	Admitted int64 // decisions since the key was last among the busiest
	Denied   int64
	Parts    int // sub-shards; 1: not split
}

// busiest watches which keys are asked about most, in bounded memory: hotStripes
// times hotWatched keys. A watched key's decisions are all counted. Of the others, to
// whom a place costs much more than a count, one in hotAdmit gets one: with N decisions/s
// over a stripe's keys, a rate is at most N/hotAdmit/hotWatched too high, and a key that
// is busier than that is watched after some hotAdmit decisions.
type busiest struct {
	stripes [hotStripes]struct {
		mu     sync.Mutex
		hot    *shard.Hot
		others uint // decisions on keys that were not watched
	}
	started time.Time
}

const (
	hotStripes  = 16     // locks, so that connections seldom wait for each other
	hotWatched  = 64     // keys a stripe
	hotAdmit    = 8      // decisions on other keys until one of them is watched
	hotConstant = 10_000 // ms over which a rate is smoothed
)

func newBusiest() *busiest {
	b := &busiest{started: time.Now()}
	for i := range b.stripes {
		b.stripes[i].hot = shard.NewHot(hotWatched, hotConstant)
	}
	return b
}

func (b *busiest) now() int64 { return time.Since(b.started).Milliseconds() }

// observe counts a pipeline's decisions, runs of one key together.
func (b *busiest) observe(p *Pipeline) {
	now := b.now()
	for i := 0; i < len(p.Requests); {
		key := p.Requests[i].Key
		admitted, denied := int64(0), int64(0)
		for ; i < len(p.Requests) && string(p.Requests[i].Key) == string(key); i++ {
			switch {
			case p.Requests[i].Op > OpThrottle || p.Results[i].Err != nil:
			case p.Results[i].Allowed:
				admitted++
			default:
				denied++
			}
		}
		if admitted+denied == 0 {
			continue
		}
		s := &b.stripes[xxhash.Sum64(key)%hotStripes]
		s.mu.Lock()
		watched := s.hot.Watches(key)
		if !watched {
			s.others++
		}
		if watched || s.others%hotAdmit == 0 {
			s.hot.Observe(key, admitted, denied, now)
		}
		s.mu.Unlock()
	}
}

// top returns at most n keys, the busiest first.
func (b *busiest) top(n int) []HotKey {
	now := b.now()
	var keys []HotKey
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		for _, k := range s.hot.Top(n, now) {
			if rate := int64(math.Round(k.Rate)); rate > 0 {
				keys = append(keys, HotKey{Key: slices.Clone(k.Key), Rate: rate, Admitted: k.Admitted, Denied: k.Denied, Parts: 1})
			}
		}
		s.mu.Unlock()
	}
	slices.SortStableFunc(keys, func(a, b HotKey) int { return cmp.Compare(b.Rate, a.Rate) })
	return keys[:min(n, len(keys))]
}

// HotKeys returns at most n of the keys most asked about, the busiest first.
func (e *Embedded) HotKeys(n int) []HotKey { return e.busy.top(n) }

// HotKeys returns at most n of the keys most asked about here, the busiest first.
func (e *Redis) HotKeys(n int) []HotKey {
	keys := e.busy.top(n)
	for i := range keys {
		keys[i].Parts = e.splits.parts(keys[i].Key)
	}
	return keys
}
