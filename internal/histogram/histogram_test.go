package histogram

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryDurationIsWithinItsBucket(t *testing.T) {
	t.Parallel()
	require.Greater(t, bound(buckets-1), 100*time.Second)
	for i := range buckets - 1 {
		at := bound(i)
		require.Equal(t, i, index(at), "the bound %v", at)
		require.Equal(t, i+1, index(at+1), "just above %v", at)
		require.LessOrEqual(t, bound(i+1)-at, max(at/8, unit), "after %v", at)
	}
	require.Equal(t, buckets-1, index(1<<62))
	require.Zero(t, index(0))
}

func TestPowersOfTwoAreBounds(t *testing.T) {
	t.Parallel()
	for d := time.Microsecond; d < 100*time.Second; d *= 2 {
		require.Equal(t, d, bound(index(d)))
	}
}

func TestQuantilesAreAtMostAnEighthTooHigh(t *testing.T) {
	t.Parallel()
	var h H
	r := rand.New(rand.NewPCG(1, 2))
	var all []time.Duration
	sum := time.Duration(0)
	for range 10_000 {
		d := time.Duration(r.ExpFloat64() * float64(200*time.Microsecond))
		all = append(all, d)
		sum += d
		h.Add(d, 1)
	}
	slices.Sort(all)
	s := h.Snapshot()
	require.EqualValues(t, len(all), s.Count)
	require.Equal(t, sum, s.Sum)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		exact := all[max(int(q*float64(len(all))), 1)-1]
		require.GreaterOrEqual(t, s.Quantile(q), exact, "quantile %v", q)
		require.LessOrEqual(t, s.Quantile(q), exact+max(exact/8, unit), "quantile %v", q)
	}
	atMost, _ := slices.BinarySearch(all, 128*time.Microsecond+1)
	require.EqualValues(t, atMost, s.AtMost(128*time.Microsecond))
}

func TestSnapshotsAreSubtractedAndMerged(t *testing.T) {
	t.Parallel()
	var h H
	require.Zero(t, h.Snapshot().Quantile(0.5))
	h.Add(time.Second, 5)
	first := h.Snapshot()
	h.Add(3*time.Microsecond, 2)
	h.Add(-time.Second, 1) // a clock that stepped back
	since := h.Snapshot().Since(first)
	require.EqualValues(t, 3, since.Count)
	require.Equal(t, 6*time.Microsecond, since.Sum)
	require.Equal(t, 3*time.Microsecond, since.Quantile(1))
	since.Merge(first)
	require.Equal(t, h.Snapshot(), since)
}

func TestAddDoesNotAllocate(t *testing.T) {
	var h H
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Add(time.Millisecond, 16) }))
}
