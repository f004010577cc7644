package limit

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Sub-windows share out the ms of a window: none is empty, none overlaps, and each
// begins where the one before ends.
func TestSubWindows(t *testing.T) {
	for _, w := range []int64{1, 2, 3, 7, 10, 999, 1000} {
		for n := int64(1); n <= min(w, 7); n++ {
			for t0 := int64(testBase); t0 < testBase+2*w; t0++ {
				k := subIndex(t0, n, w)
				require.LessOrEqual(t, subStart(k, n, w), t0)
				require.Greater(t, subStart(k+1, n, w), t0)
				require.Equal(t, k-n, subIndex(t0-w, n, w), "a window before, n sub-windows before")
			}
		}
	}
}

func TestWeigh(t *testing.T) {
	for _, tt := range []struct{ oldest, w, e, want int64 }{
		{8, 60_000, 45_000, 2},
		{100, 10_000, 2000, 80},
		{100, 100, 71, 29}, // 100*0.29 is less than 29 in doubles, 100*29/100 is not
		{1, 1000, 0, 1},
		{1, 1000, 1, 0},
		{MaxLimit, MaxWindow, 0, MaxLimit},
		{MaxLimit, MaxWindow, MaxWindow - 1, 31},
	} {
		require.Equal(t, tt.want, weigh(tt.oldest, tt.w, tt.e), "%+v", tt)
	}
}

// The closed form finds the first ms at which a weight is small enough, for all
// magnitudes: at that ms it is, and one ms before it is not.
func TestLighter(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 5))
	upTo := func(most int64) int64 { // evenly over the magnitudes
		v := 1 + rng.Int64N(most)
		for rng.IntN(3) > 0 {
			v = 1 + v/(1+rng.Int64N(1000))
		}
		return v
	}
	for want, c := range map[int64][4]int64{ // where the quotient of doubles is too high or too low by one
		28_774_344_201: {3_551_364, 28_001, 29_003_028_959, 0},
		11_901_575_107: {8_571_497, 4_702_678, 26_368_341_782, 0},
	} {
		require.Equal(t, want, lighter(c[0], c[1], 0, 1, c[2], c[3], false))
	}
	found := 0
	for range 20_000 {
		w := upTo(MaxWindow)
		n := min(upTo(MaxBuckets), w)
		oldest := upTo(MaxLimit)
		y := rng.Int64N(oldest)
		k := subIndex(testBase+rng.Int64N(MaxWindow), n, w)
		start, end := subStart(k, n, w), subStart(k+1, n, w)
		from := start + rng.Int64N(end-start)
		got := lighter(oldest, y, k, n, w, from, false)
		counts := func(t int64) int64 { return usedAt(t, k, n, w, oldest, 0, false) }
		require.GreaterOrEqual(t, got, from)
		require.LessOrEqual(t, got, end)
		if got < end {
			require.LessOrEqual(t, counts(got), y)
			found++
		}
		if got > from {
			require.Greater(t, counts(got-1), y)
		}
		want := from
		if oldest > y {
			want = end
		}
		require.Equal(t, want, lighter(oldest, y, k, n, w, from, true))
	}
	require.Greater(t, found, 2000)
}
