package topk

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
)

// observe counts decisions on a key whose last answer has limit 5 and 1 remaining.
func (t *Tracker) observe(key string, admitted, denied, now int64) {
	t.Observe([]byte(key), xxhash.Sum64String(key), &Decisions{All: admitted + denied, Admitted: admitted, Denied: denied, Limit: 5, Remaining: 1}, now)
}

// top returns the n busiest keys.
func (t *Tracker) top(n int, now int64) []Key {
	keys := t.Keys(now)
	slices.SortFunc(keys, func(a, b Key) int { return cmp.Compare(b.Rate, a.Rate) })
	return keys[:min(n, len(keys))]
}

// The documented bounds hold against exact counts that decay alike, whatever the skew.
func TestRatesKeepTheirBounds(t *testing.T) {
	const k, keys, constant = 64, 5000, 400
	for _, skew := range []float64{1.01, 1.2, 2} {
		rng := rand.New(rand.NewPCG(7, uint64(skew*100)))
		zipf := rand.NewZipf(rng, skew, 1, keys-1)
		tracker, exact, total, now := New(k, constant), map[string]float64{}, 0.0, int64(1_700_000_000_000)
		scale := 1.0 // factor to apply to all numbers in exact
		for step := range 60_000 {
			if rng.IntN(20) == 0 {
				pause := rng.Int64N(60)
				if rng.IntN(200) == 0 {
					pause = 3000 // These add up, so that the epoch moves in the end.
				}
				now += pause
				decay := math.Exp(-float64(pause) / constant)
				total, scale = total*decay, scale*decay
			}
			key, admitted, denied := fmt.Sprint("key:", zipf.Uint64()), rng.Int64N(3), 1+rng.Int64N(3)
			tracker.observe(key, admitted, denied, now)
			exact[key] += float64(admitted+denied) / scale
			total += float64(admitted + denied)
			if step%5000 == 4999 {
				for key := range exact {
					exact[key] *= scale
				}
				scale = 1
				checkBounds(t, tracker, exact, total, now, constant, k)
			}
		}
		require.Greater(t, now-1_700_000_000_000, int64(200*constant), "the epoch must have moved")
	}
}

func checkBounds(t *testing.T, tracker *Tracker, exact map[string]float64, total float64, now int64, constant float64, k int) {
	t.Helper()
	rate := func(count float64) float64 { return count / constant * 1000 }
	bound := rate(total) / float64(k)
	keys := tracker.Keys(now)
	require.LessOrEqual(t, len(keys), k)
	tracked := map[string]bool{}
	for _, key := range keys {
		truth := rate(exact[string(key.Key)])
		require.LessOrEqual(t, key.Rate, truth+rate(admit-1)+1e-6, "a rate leaves out the inherited weight")
		require.LessOrEqual(t, key.DeniedRate, key.Rate+1e-6)
		tracked[string(key.Key)] = true
	}
	for i := range tracker.keys {
		inherited := tracker.rate(tracker.keys[i].inherited)
		require.LessOrEqual(t, inherited, bound+rate(admit-1)/float64(k)+1e-6)
		require.LessOrEqual(t, tracker.keys[i].heapWeight, tracker.keys[i].weight)
	}
	checkHeap(t, tracker)
	for key, count := range exact {
		if rate(count) > bound+rate(admit) {
			require.True(t, tracked[key], "%s has more than N/k", key)
		}
	}
}

func checkHeap(t *testing.T, tracker *Tracker) {
	t.Helper()
	for at := 1; at < len(tracker.heap); at++ {
		up := tracker.heap[(at-1)/2]
		require.LessOrEqual(t, tracker.keys[up].heapWeight, tracker.keys[tracker.heap[at]].heapWeight)
	}
}

func TestRateFollowsTheLoad(t *testing.T) {
	tracker := New(8, 10_000)
	for now := int64(1); now < 100_000; now += 5 {
		tracker.observe("steady", 1, 0, now)
		tracker.observe("denied", 1, 9, now)
		switch now { // the figures that the documentation gives for the first seconds
		case 10_001:
			require.InEpsilon(t, 2000*0.63, tracker.top(1, now)[0].Rate, 0.01)
		case 30_001:
			require.InEpsilon(t, 2000*0.95, tracker.top(1, now)[0].Rate, 0.01)
		}
	}
	top := tracker.top(10, 100_000)
	require.Len(t, top, 2)
	require.Equal(t, "denied", string(top[0].Key))
	require.InEpsilon(t, 2000, top[0].Rate, 0.01)
	require.InEpsilon(t, 1800, top[0].DeniedRate, 0.01)
	require.InEpsilon(t, 200, top[1].Rate, 0.01)
	require.Zero(t, top[1].DeniedRate)
	require.Equal(t, Decisions{All: 200_000, Admitted: 20_000, Denied: 180_000, Limit: 5, Remaining: 1}, top[0].Seen)

	tracker.observe("steady", 5000, 0, 5) // The clock stepped back.
	require.InEpsilon(t, 200+500, tracker.top(2, 100_000)[1].Rate, 0.01)
	require.InEpsilon(t, 2000*math.Exp(-2), tracker.top(1, 120_000)[0].Rate, 0.01)
	require.Empty(t, tracker.Keys(100_000+20*10_000), "an idle key is forgotten")
	require.Empty(t, tracker.Keys(math.MaxInt64/2))
}

// distinct observes one decision on each of n other keys, numbered from first on.
func (t *Tracker) distinct(first, n int, now int64) {
	for i := range n {
		t.observe(fmt.Sprint("other:", first+i), 1, 0, now)
	}
}

// Ten decisions on a key give it a place even if all places are taken, and even if decisions
// on other keys come in between.
func TestTenDecisionsGiveAPlace(t *testing.T) {
	const k, trials = 64, 2000
	for _, between := range []int{0, generation / 20, generation / 10} { // other keys between two decisions
		missed, others := 0, 0
		tracker := New(k, 10_000)
		tracker.distinct(0, 3*generation, 1)
		for trial := range trials / max(1, between/10) {
			key := fmt.Sprint("new:", trial)
			for range admit {
				tracker.observe(key, 1, 0, 1)
				tracker.distinct(1_000_000+others, between, 1)
				others += between
			}
			if _, found := tracker.index[xxhash.Sum64String(key)]; !found {
				missed++
			}
		}
		require.Zero(t, missed, "with %d decisions on other keys in between", between)
	}
}

// A key of which ten or more decisions come together gets a place at once. All decisions that earned a place count.
func TestDecisionsThatEarnAPlaceCount(t *testing.T) {
	for _, n := range []int64{admit, 20, math.MaxUint8 + 1} {
		tracker := New(1, 1000)
		tracker.observe("first", 1, 0, 1)
		tracker.observe("many", n, 0, 1)
		require.InDelta(t, n, tracker.top(1, 1)[0].Rate, 1e-6)
		for range admit {
			tracker.observe("one by one", 1, 0, 1)
		}
		require.InDelta(t, admit, tracker.top(1, 1)[0].Rate, 1e-6)
	}
}

// One decision on a new key gives it the place of a key whose decisions have almost decayed, and of no other.
func TestForgottenKeysLoseTheirPlaces(t *testing.T) {
	names := func(tracker *Tracker) (names []string) {
		for _, k := range tracker.keys {
			names = append(names, string(k.key))
		}
		return names
	}
	const later = 5000 // 100 decisions have decayed to 0.7, and 10 to 0.07
	tracker := New(4, 1000)
	for name, n := range map[string]int64{"a": 2, "b": 100, "idle": 10, "c": 100} {
		tracker.observe(name, n, 0, 1)
	}
	tracker.observe("new", 1, 0, 1)
	tracker.observe("a", 98, 0, 1)
	tracker.observe("new", 1, 0, 4000)
	require.ElementsMatch(t, []string{"a", "b", "idle", "c"}, names(tracker))
	tracker.observe("new", 1, 0, later)
	tracker.observe("newer", 1, 0, later)
	require.ElementsMatch(t, []string{"a", "b", "new", "c"}, names(tracker))
}

// All that is counted of a key is reported, whether its shadow or the key itself was asked.
func TestDecisionsOfAKeyAndItsShadow(t *testing.T) {
	tracker := New(1, 1000)
	for _, step := range []struct{ add, want Decisions }{
		{Decisions{Lapsed: 1}, Decisions{}}, // not tracked yet
		{Decisions{Shadow: 3, ShadowDenied: 1, Limit: 5, Remaining: 2}, Decisions{Shadow: 3, ShadowDenied: 1, Limit: 5, Remaining: 2}},
		{Decisions{Lapsed: 1, Overrun: 2}, Decisions{Shadow: 3, ShadowDenied: 1, Limit: 5, Remaining: 2, Lapsed: 1, Overrun: 2}},
		{Decisions{All: 2, Limit: 7, Remaining: -1}, Decisions{All: 2, Shadow: 3, ShadowDenied: 1, Limit: 7, Remaining: -1, Lapsed: 1, Overrun: 2}},
		{Decisions{Shadow: 1, Limit: 5}, Decisions{All: 2, Shadow: 4, ShadowDenied: 1, Limit: 7, Remaining: -1, Lapsed: 1, Overrun: 2}},
		{Decisions{All: 60, Admitted: 4, Denied: 5, ByFail: 51, Refused: 9}, Decisions{All: 62, Admitted: 4, Denied: 5, ByFail: 51, Refused: 9, Shadow: 4, ShadowDenied: 1, Lapsed: 1, Overrun: 2}},
	} {
		tracker.Observe([]byte("key"), 1, &step.add, 1)
		tracker.Observe([]byte("other"), 1, &step.add, 1) // has the same hash, so it is not counted
		var seen Decisions
		for _, k := range tracker.Keys(1) {
			require.Equal(t, "key", string(k.Key))
			seen = k.Seen
		}
		require.Equal(t, step.want, seen)
	}
}

// A stream of keys that are each seen once takes no places from busier keys.
func TestDistinctKeysTakeNoPlaces(t *testing.T) {
	tracker := New(64, 10_000)
	for i := range 64 {
		for range admit {
			tracker.observe(fmt.Sprint("busy:", i), 1, 0, 1)
		}
	}
	const n = 1_000_000
	tracker.distinct(0, n, 1)
	taken := 0
	for _, k := range tracker.Keys(1) {
		if k.Seen.Admitted < admit {
			taken++
		}
	}
	require.Less(t, taken, 3)
}

// A key that keeps losing its place has to earn it again each time.
func TestAtMostOneDecisionInTenTakesAPlace(t *testing.T) {
	tracker, placed := New(8, 10_000), 0
	const n = 200_000
	for i := range n {
		key := fmt.Sprint("tenant:", i%100)
		_, before := tracker.index[xxhash.Sum64String(key)]
		tracker.observe(key, 1, 0, 1)
		if _, after := tracker.index[xxhash.Sum64String(key)]; after && !before {
			placed++
			checkHeap(t, tracker)
		}
	}
	require.Less(t, placed, n/admit+8)
	require.Greater(t, placed, n/admit/2)
}

// Positions and key buffers are reused: memory does not grow with the number of keys.
func TestMemoryIsBounded(t *testing.T) {
	tracker := New(32, 1000)
	tracker.observe(string(make([]byte, 4096)), 1, 0, 1)
	for i := range 100_000 {
		tracker.observe(fmt.Sprint("key:", i), 10, 0, int64(1+i/10))
	}
	require.Len(t, tracker.index, 32)
	require.Len(t, tracker.heap, 32)
	for _, k := range tracker.keys {
		require.LessOrEqual(t, cap(k.key), 256)
	}

	keys, turn := make([]byte, 8), uint64(0)
	one := func(of uint64) func() {
		return func() {
			turn++
			binary.BigEndian.PutUint64(keys, turn%of)
			tracker.Observe(keys, xxhash.Sum64(keys), &Decisions{All: 1, Admitted: 1}, 20_000)
		}
	}
	for _, of := range []uint64{1, 1000, math.MaxUint64} {
		require.Zero(t, testing.AllocsPerRun(100_000, one(of)))
	}
}
