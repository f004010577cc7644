package observe

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/shard/topk"
)

// HotKey is what RL.HOTKEYS shows of one key.
type HotKey struct {
	Key      []byte
	Rate     int64 // decisions per second, admitted and denied
	Admitted int64 // decisions since the key was last among the busiest
	Denied   int64
	Shards   int // 1: not split
}

// busiest tracks which keys are asked about most, in bounded memory: hotStripes
// times hotTracked keys. All decisions of a tracked key are counted. Of the others,
// for which a place costs much more than a count, one in hotAdmit gets a place: with
// N decisions/s over a stripe's keys, a rate is at most N/hotAdmit/hotTracked too
// high, and a key that is busier than that is tracked after some hotAdmit decisions.
type busiest struct {
	stripes [hotStripes]struct {
		mu     sync.Mutex
		keys   *topk.Tracker // guarded by mu
		others uint          // decisions on keys that were not tracked, guarded by mu
	}
	now     func() time.Time
	started time.Time
}

const (
	hotStripes  = 16     // locks, so that connections seldom wait for each other
	hotTracked  = 64     // keys a stripe
	hotAdmit    = 8      // decisions on other keys until one of them is tracked
	hotConstant = 10_000 // ms over which a rate is smoothed
)

// newBusiest returns a tracker that has seen nothing. The clock is now.
func newBusiest(now func() time.Time) *busiest {
	b := &busiest{now: now, started: now()}
	for i := range b.stripes {
		b.stripes[i].keys = topk.New(hotTracked, hotConstant)
	}
	return b
}

// observe counts a pipeline's decisions, runs of one key together.
func (b *busiest) observe(p *engine.Pipeline) {
	now := b.now().Sub(b.started).Milliseconds()
	for i := 0; i < len(p.Requests); {
		key := p.Requests[i].Key
		admitted, denied := int64(0), int64(0)
		for ; i < len(p.Requests) && string(p.Requests[i].Key) == string(key); i++ {
			switch {
			case p.Requests[i].Op != engine.OpDecide || p.Results[i].Err != nil:
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
		tracked := s.keys.Tracks(key)
		if !tracked {
			s.others++
		}
		if tracked || s.others%hotAdmit == 0 {
			s.keys.Observe(key, admitted, denied, now)
		}
		s.mu.Unlock()
	}
}

// top returns at most n keys, the busiest first.
func (b *busiest) top(n int) []HotKey {
	now := b.now().Sub(b.started).Milliseconds()
	var keys []HotKey
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		for _, k := range s.keys.Top(n, now) {
			if rate := int64(math.Round(k.Rate)); rate > 0 {
				keys = append(keys, HotKey{Key: slices.Clone(k.Key), Rate: rate, Admitted: k.Admitted, Denied: k.Denied, Shards: 1})
			}
		}
		s.mu.Unlock()
	}
	slices.SortStableFunc(keys, func(a, b HotKey) int { return cmp.Compare(b.Rate, a.Rate) })
	return keys[:min(n, len(keys))]
}
