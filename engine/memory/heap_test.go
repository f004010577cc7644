package memory

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Whatever is added, removed and moved, the heap has the keys that it should have, each below one that is due no later.
func TestHeapIsInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 1))
	var h dueHeap
	var keys []*record
	for step := range 8000 {
		due := rng.Int64N(1000)
		if i := rng.IntN(len(keys) + 1); i == len(keys) || step%4000 < 1000 {
			k := new(record)
			h.add(k, due)
			require.Equal(t, due, k.due)
			keys = append(keys, k)
		} else if k := keys[i]; rng.IntN(3) == 0 {
			h.remove(k)
			keys = slices.Delete(keys, i, i+1)
		} else if due > k.due {
			h.delay(k, due)
			require.Equal(t, due, k.due)
		} else {
			h.hasten(k, due)
			require.Equal(t, due, k.due)
			h.hasten(k, due+1)
			require.Equal(t, due, k.due)
		}
		require.Len(t, h, len(keys))
		require.True(t, len(h) <= 64 || len(h) >= cap(h)/4, "%d of %d places", len(h), cap(h))
		for i, k := range h {
			if int(k.at) != i || k.due < h[max(i-1, 0)/2].due {
				require.Fail(t, "out of order", "step %d, place %d", step, i)
			}
		}
	}
}
