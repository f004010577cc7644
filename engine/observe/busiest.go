package observe

import (
	"bytes"
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/rlproxy/rlproxy/shard/topk"
)

// HotKey is what RL.HOTKEYS shows of one client's key, and of its shadow with it. Rates are
// smoothed: a decision counts by exp(-age / 10 s).
type HotKey struct {
	Key []byte
	// Decisions per second, with denials, answers by FAIL policy, repeated ones and those with SHADOW.
	Rate       float64
	DeniedRate float64 // Denials per second.
	Decisions  int64   // Decisions without SHADOW since the key was last among the busiest.
	Admitted   int64   // Admissions since then, without those by a FAIL policy.
	Denied     int64   // Denials by a limit since then, with those by FAIL LOCAL.
	ByFail     int64   // Answers by a FAIL policy since then.
	Refused    int64   // Those of ByFail that were denied by FAIL CLOSED or got an error by FAIL ERROR.
	Limit      int64   // The limit in the last answer; in one without SHADOW if there was any.
	Remaining  int64   // What remained of Limit in that answer; -1: unknown, as a FAIL policy answered.
	Shards     int     // The shards of the key, or of its shadow if it has more; 1: not split.

	ShadowDenied int64 // What SHADOW would have denied since then, which is neither admissions nor denials.

	Lapsed  int64 // Reservations, and leases of RL.ACQUIRE, that have lapsed since then.
	Overrun int64 // Units that RL.SETTLE has charged beyond those held since then.
	Drawn   int64 // Those of Admitted that were admitted from an advance, without asking a node.
}

// Order says which keys come first.
type Order uint8

// The orders.
const (
	ByRate   Order = iota // the keys with the most decisions per second
	ByDenied              // the keys with the most denials per second
)

// Sort sorts keys in the given order. Keys that are equal in it are sorted by the other rate,
// then by name.
func Sort(keys []HotKey, by Order) {
	slices.SortFunc(keys, func(a, b HotKey) int {
		rate, denied := cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.DeniedRate, a.DeniedRate)
		if by == ByDenied {
			rate, denied = denied, rate
		}
		return cmp.Or(rate, denied, bytes.Compare(a.Key, b.Key))
	})
}

// busiest tracks the keys with the most requests, in bounded memory: hotStripes times
// hotTracked keys, and 256 KB in which other keys are counted until they are tracked (see
// package topk). All decisions of a tracked key are counted.
type busiest struct {
	stripes [hotStripes]struct {
		mu   sync.Mutex
		keys *topk.Tracker // guarded by mu
	}
	now     func() time.Time
	started time.Time
}

const (
	hotStripes  = 16     // locks, so that connections seldom wait for each other
	hotTracked  = 64     // keys a stripe
	hotConstant = 10_000 // ms over which a rate is smoothed
)

func newBusiest(now func() time.Time) *busiest {
	b := &busiest{now: now, started: now()}
	for i := range b.stripes {
		b.stripes[i].keys = topk.New(hotTracked, hotConstant)
	}
	return b
}

// observe counts a pipeline's decisions, runs of one key together. They were made at a time
// after the start.
func (b *busiest) observe(p *engine.Pipeline, at time.Duration) {
	now := at.Milliseconds()
	for i := 0; i < len(p.Requests); {
		name := p.Requests[i].Key
		key, _ := shard.ClientKey(name)
		seen, counts := topk.Decisions{}, false
		for ; i < len(p.Requests) && string(p.Requests[i].Key) == string(name); i++ {
			r, res := &p.Requests[i], &p.Results[i]
			seen.Lapsed += res.Lapsed
			if r.Op != engine.OpDecide {
				counts = countOther(&seen, res) || counts
			} else {
				counts = countDecision(&seen, r, res) || counts
			}
		}
		if counts {
			hash := xxhash.Sum64(key)
			s := &b.stripes[hash%hotStripes]
			s.mu.Lock()
			s.keys.Observe(key, hash, &seen, now)
			s.mu.Unlock()
		}
	}
}

// countDecision counts a decision, and reports whether it counts: an error does not, unless a FAIL policy gave it.
func countDecision(seen *topk.Decisions, r *engine.Request, res *engine.Result) bool {
	outcome := OutcomeOf(r, res)
	switch outcome {
	case Allowed:
		seen.Admitted++
	case Drawn:
		seen.Admitted++
		seen.Drawn++
	case Denied, Remembered, DeniedLocally:
		seen.Denied++
	case FailClosed, FailError:
		seen.Refused++
	case ShadowDenied:
		seen.ShadowDenied++
	case Error:
		return false
	}
	seen.Limit, seen.Remaining = res.Limit, res.Remaining
	if res.Fail != engine.FailDefault {
		seen.Remaining = -1
	}
	if ShadowAllowed <= outcome && outcome <= ShadowFail {
		seen.Shadow++
		return true
	}
	seen.All++
	if res.Fail != engine.FailDefault {
		seen.ByFail++
	}
	return true
}

// countOther counts the answer to a request that is no decision, and reports whether there is
// something to count.
func countOther(seen *topk.Decisions, res *engine.Result) bool {
	if res.Err == nil && !res.Settled.Again {
		seen.Overrun += res.Settled.Overrun
	}
	return seen.Lapsed+seen.Overrun > 0
}

// top returns at most n keys, the busiest first.
func (b *busiest) top(n int) []HotKey {
	now := b.now().Sub(b.started).Milliseconds()
	var keys []HotKey
	for i := range b.stripes {
		s := &b.stripes[i]
		s.mu.Lock()
		tracked := s.keys.Keys(now)
		s.mu.Unlock()
		for _, k := range tracked {
			keys = append(keys, HotKey{
				Key: k.Key, Rate: k.Rate, DeniedRate: k.DeniedRate, Shards: 1,
				Decisions: k.Seen.All, Admitted: k.Seen.Admitted, Drawn: k.Seen.Drawn, Denied: k.Seen.Denied,
				ByFail: k.Seen.ByFail, Refused: k.Seen.Refused, ShadowDenied: k.Seen.ShadowDenied,
				Limit: k.Seen.Limit, Remaining: k.Seen.Remaining, Lapsed: k.Seen.Lapsed, Overrun: k.Seen.Overrun,
			})
		}
	}
	Sort(keys, ByRate)
	return keys[:min(n, len(keys))]
}
