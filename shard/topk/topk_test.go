package topk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The documented bounds hold against exact counts that decay alike, whatever the skew.
func TestRatesKeepTheirBounds(t *testing.T) {
	const k, keys, constant = 64, 5000, 400
	for _, skew := range []float64{1.01, 1.2, 2} {
		rng := rand.New(rand.NewPCG(7, uint64(skew*100)))
		zipf := rand.NewZipf(rng, skew, 1, keys-1)
		tracker, exact, total, now := New(k, constant), map[string]float64{}, 0.0, int64(1_700_000_000_000)
		for step := range 60_000 {
			if rng.IntN(20) == 0 {
				pause := rng.Int64N(60)
				if rng.IntN(200) == 0 {
					pause = 3000 // These add up, so that the epoch moves in the end.
				}
				now += pause
				decay := math.Exp(-float64(pause) / constant)
				total *= decay
				for key := range exact {
					exact[key] *= decay
				}
			}
			key, admitted, denied := fmt.Sprint("key:", zipf.Uint64()), rng.Int64N(3), rng.Int64N(3)
			tracker.Observe([]byte(key), admitted, denied, now)
			exact[key] += float64(admitted + denied)
			total += float64(admitted + denied)
			if step%5000 == 4999 {
				checkBounds(t, tracker, exact, total, now, constant, k)
			}
		}
		require.Greater(t, now-1_700_000_000_000, int64(200*constant), "the epoch must have moved")
	}
}

func checkBounds(t *testing.T, tracker *Tracker, exact map[string]float64, total float64, now int64, constant float64, k int) {
	t.Helper()
	const slack = 1e-6
	rate := func(count float64) float64 { return count / constant * 1000 }
	bound := rate(total)/float64(k) + slack
	top := tracker.Top(k, now)
	require.LessOrEqual(t, len(top), k)
	require.InEpsilon(t, rate(total), tracker.Rate(), 1e-6)
	tracked := map[string]bool{}
	for i, key := range top {
		truth := rate(exact[string(key.Key)])
		require.GreaterOrEqual(t, key.Rate+slack, truth)
		require.LessOrEqual(t, key.Rate-key.Error, truth+slack)
		require.LessOrEqual(t, key.Error, bound)
		if i > 0 {
			require.LessOrEqual(t, key.Rate, top[i-1].Rate)
		}
		tracked[string(key.Key)] = true
	}
	for key, count := range exact {
		if rate(count) > bound {
			require.True(t, tracked[key], "%s has more than N/k", key)
		}
	}
}

func TestRateFollowsTheLoad(t *testing.T) {
	tracker := New(8, 10_000)
	for now := int64(1); now < 100_000; now += 5 {
		tracker.Observe([]byte("steady"), 1, 0, now)
		tracker.Observe([]byte("denied"), 1, 9, now)
	}
	top := tracker.Top(10, 100_000)
	require.Len(t, top, 2)
	require.Equal(t, "denied", string(top[0].Key))
	require.InEpsilon(t, 2000, top[0].Rate, 0.01)
	require.InEpsilon(t, 200, top[1].Rate, 0.01)
	require.Equal(t, int64(20_000), top[0].Admitted)
	require.Equal(t, int64(180_000), top[0].Denied)
	require.Len(t, tracker.Top(1, 100_000), 1)

	tracker.Observe([]byte("steady"), 1, 0, 5) // The clock stepped back.
	require.InEpsilon(t, 200, tracker.Top(2, 100_000)[1].Rate, 0.02)
	require.InDelta(t, 0, tracker.Top(1, 100_000+20*10_000)[0].Rate, 1e-4, "the rate of an idle key decays")
	require.InDelta(t, 0, tracker.Top(1, math.MaxInt64/2)[0].Rate, 1e-9)
}

// Positions and key buffers are reused: memory does not grow with the number of keys.
func TestMemoryIsBounded(t *testing.T) {
	tracker := New(32, 1000)
	long := make([]byte, 4096)
	tracker.Observe(long, 1, 0, 1)
	key := make([]byte, 0, 32)
	for i := range 100_000 {
		key = fmt.Appendf(key[:0], "key:%d", i)
		tracker.Observe(key, 1, 0, int64(1+i/10))
	}
	require.Len(t, tracker.index, 32)
	require.Len(t, tracker.heap, 32)
	bytes := 0
	for _, k := range tracker.keys {
		bytes += cap(k.key)
	}
	require.Less(t, bytes, 32*256)

	known, turn := []byte("key:99999"), 0
	others := [2][]byte{[]byte("a"), []byte("b")}
	require.Zero(t, testing.AllocsPerRun(1000, func() { tracker.Observe(known, 1, 0, 20_000) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		turn++
		tracker.Observe(others[turn%2], 1, 0, 20_000)
	}))
}

func BenchmarkObserveTracked1024(b *testing.B) { benchmarkObserve(b, 1024, 1000) }

func BenchmarkObserveUntracked1024(b *testing.B) { benchmarkObserve(b, 1024, 1_000_000) }

func benchmarkObserve(b *testing.B, k, keys int) {
	tracker, key, i := New(k, 10_000), make([]byte, 0, 32), 0
	for b.Loop() {
		i++
		key = fmt.Appendf(key[:0], "key:%d", i*7919%keys)
		tracker.Observe(key, 1, 0, int64(1+i/500))
	}
}
