package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	for _, masters := range []int{1, 2, 3, 6, 50} {
		owner := func(slot int) int { return slot * masters / Slots }
		for i := range 50 {
			for _, n := range []int{1, 2, 3, 4, 7, 12} {
				parts := Spread([]int{-1}, testKey(i), n, masters, owner)[1:]
				require.Len(t, parts, n)
				require.Zero(t, parts[0], "the home is part 0")
				on := make([]int, masters)
				for j, part := range parts {
					on[owner(Slot(AppendStoredKey(nil, testKey(i), part)))]++
					require.False(t, j > 0 && part <= parts[j-1], "no number twice")
				}
				for _, count := range on {
					require.LessOrEqual(t, count, (n+masters-1)/masters)
				}
			}
		}
	}
}

// A master without slots is no reason to search for ever.
func TestSpreadEmptyMaster(t *testing.T) {
	require.Len(t, Spread(nil, testKey(1), 1024, 3, func(int) int { return 1 }), 1024)
}
