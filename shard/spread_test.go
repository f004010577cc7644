package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpreadUsesAllMastersEvenly(t *testing.T) {
	for _, masters := range []int{1, 2, 3, 6, 50} {
		owner := func(slot int) int { return slot * masters / Slots }
		names := [][]byte{{}, []byte("{a}%"), []byte("b\xffs")}
		for i := range 50 {
			names = append(names, testKey(i))
		}
		for _, name := range names {
			for _, n := range []int{1, 2, 3, 4, 7, 12, 60} {
				shards := Spread([]int{-1}, name, n, masters, owner)[1:]
				require.Len(t, shards, n)
				require.Zero(t, shards[0], "the home is shard 0")
				on := make([]int, masters)
				for j, shard := range shards {
					on[owner(Slot(AppendStoredKey(nil, name, shard)))]++
					require.False(t, j > 0 && shard <= shards[j-1], "no number appears twice")
				}
				for _, count := range on {
					require.LessOrEqual(t, count, (n+masters-1)/masters)
				}
			}
		}
	}
}

// All versions of rlproxy choose the same numbers, because these are part of stored keys.
func TestSpreadChoosesTheSameNumbersInEveryVersion(t *testing.T) {
	even := func(slot int) int { return slot * 3 / Slots }
	poor := func(slot int) int { return min(slot, 1) } // master 0 has one slot, and master 2 none
	require.Equal(t, []int{0, 3, 4, 5, 7, 8, 9, 10}, Spread(nil, testKey(2), 8, 3, even))
	require.Equal(t, []int{0, 192, 385, 578, 771}, Spread(nil, testKey(2), 5, 3, poor))
}

// A master without slots must not make the search endless.
func TestSpreadEndsWithAnEmptyMaster(t *testing.T) {
	require.Len(t, Spread(nil, testKey(1), 1024, 3, func(int) int { return 1 }), 1024)
}
