package stats

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/histogram"
)

func TestCumulativeGrowsToTheNumberOfCalls(t *testing.T) {
	var h histogram.H
	require.Empty(t, cumulative(h.Snapshot()))
	for d, n := range map[time.Duration]int64{
		0: 1, time.Microsecond: 2, 3 * time.Microsecond: 4, 4 * time.Microsecond: 8, 5 * time.Microsecond: 16, 10 * time.Hour: 32,
	} {
		h.Add(d, n)
	}
	steps := cumulative(h.Snapshot())
	require.Equal(t, [][2]int64{{1, 3}, {4, 15}, {8, 31}}, steps[:3])
	require.Len(t, steps, 4, "only bounds that add something")
	require.EqualValues(t, 63, steps[3][1])
}
