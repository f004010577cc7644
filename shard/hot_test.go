package shard

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The stated bounds hold against exact counts that fade alike, whatever the skew.
func TestHotBounds(t *testing.T) {
	const k, keys, constant = 64, 5000, 400
	for _, skew := range []float64{1.01, 1.2, 2} {
		rng := rand.New(rand.NewPCG(7, uint64(skew*100)))
		zipf := rand.NewZipf(rng, skew, 1, keys-1)
		h, exact, total, now := NewHot(k, constant), map[string]float64{}, 0.0, int64(1_700_000_000_000)
		for step := range 60_000 {
			if rng.IntN(20) == 0 {
				pause := rng.Int64N(60)
				if rng.IntN(200) == 0 {
					pause = 3000 // past the epoch's move, in the end
				}
				now += pause
				fade := math.Exp(-float64(pause) / constant)
				total *= fade
				for key := range exact {
					exact[key] *= fade
				}
			}
			key, admitted, denied := fmt.Sprint("key:", zipf.Uint64()), rng.Int64N(3), rng.Int64N(3)
			h.Observe([]byte(key), admitted, denied, now)
			exact[key] += float64(admitted + denied)
			total += float64(admitted + denied)
			if step%5000 == 4999 {
				checkHot(t, h, exact, total, now, constant, k)
			}
		}
		require.Greater(t, now-1_700_000_000_000, int64(200*constant), "the epoch must have moved")
	}
}

func checkHot(t *testing.T, h *Hot, exact map[string]float64, total float64, now int64, constant float64, k int) {
	t.Helper()
	const slack = 1e-6
	rate := func(count float64) float64 { return count / constant * 1000 }
	bound := rate(total)/float64(k) + slack
	top := h.Top(k, now)
	require.LessOrEqual(t, len(top), k)
	require.InEpsilon(t, rate(total), h.Rate(), 1e-6)
	watched := map[string]bool{}
	for i, hot := range top {
		truth := rate(exact[string(hot.Key)])
		require.GreaterOrEqual(t, hot.Rate+slack, truth)
		require.LessOrEqual(t, hot.Rate-hot.Error, truth+slack)
		require.LessOrEqual(t, hot.Error, bound)
		if i > 0 {
			require.LessOrEqual(t, hot.Rate, top[i-1].Rate)
		}
		watched[string(hot.Key)] = true
	}
	for key, count := range exact {
		if rate(count) > bound {
			require.True(t, watched[key], "%s has more than N/k", key)
		}
	}
}

func TestHotRate(t *testing.T) {
	h := NewHot(8, 10_000)
	for now := int64(1); now < 100_000; now += 5 {
		h.Observe([]byte("steady"), 1, 0, now)
		h.Observe([]byte("denied"), 1, 9, now)
	}
	top := h.Top(10, 100_000)
	require.Len(t, top, 2)
	require.Equal(t, "denied", string(top[0].Key))
	require.InEpsilon(t, 2000, top[0].Rate, 0.01)
	require.InEpsilon(t, 200, top[1].Rate, 0.01)
	require.Equal(t, int64(20_000), top[0].Admitted)
	require.Equal(t, int64(180_000), top[0].Denied)
	require.Len(t, h.Top(1, 100_000), 1)

	h.Observe([]byte("steady"), 1, 0, 5) // a clock that went back
	require.InEpsilon(t, 200, h.Top(2, 100_000)[1].Rate, 0.02)
	require.InDelta(t, 0, h.Top(1, 100_000+20*10_000)[0].Rate, 1e-4, "what is over fades")
	require.InDelta(t, 0, h.Top(1, math.MaxInt64/2)[0].Rate, 1e-9)
}

// A key that comes back begins anew, and places are used again without growth.
func TestHotMemory(t *testing.T) {
	h := NewHot(32, 1000)
	long := make([]byte, 4096)
	h.Observe(long, 1, 0, 1)
	key := make([]byte, 0, 32)
	for i := range 100_000 {
		key = fmt.Appendf(key[:0], "key:%d", i)
		h.Observe(key, 1, 0, int64(1+i/10))
	}
	require.Len(t, h.index, 32)
	require.Len(t, h.heap, 32)
	bytes := 0
	for _, k := range h.keys {
		bytes += cap(k.key)
	}
	require.Less(t, bytes, 32*256)

	known, turn := []byte("key:99999"), 0
	others := [2][]byte{[]byte("a"), []byte("b")}
	require.Zero(t, testing.AllocsPerRun(1000, func() { h.Observe(known, 1, 0, 20_000) }))
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		turn++
		h.Observe(others[turn%2], 1, 0, 20_000)
	}))
}

func BenchmarkHotKnown1024(b *testing.B) { benchmarkHot(b, 1024, 1000) }

func BenchmarkHotUnknown1024(b *testing.B) { benchmarkHot(b, 1024, 1_000_000) }

func benchmarkHot(b *testing.B, k, keys int) {
	h, key, i := NewHot(k, 10_000), make([]byte, 0, 32), 0
	for b.Loop() {
		i++
		key = fmt.Appendf(key[:0], "key:%d", i*7919%keys)
		h.Observe(key, 1, 0, int64(1+i/500))
	}
}
