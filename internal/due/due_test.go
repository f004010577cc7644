package due_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/internal/due"
	"github.com/stretchr/testify/require"
)

type task struct {
	due.Place
	at int
}

func (t *task) Before(other *task) bool { return t.at < other.at }

func TestTheFirstOfAHeapIsDueNext(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	tasks := make([]*task, 40)
	for i := range tasks {
		tasks[i] = new(task)
	}
	var h due.Heap[*task]
	in := map[*task]bool{}
	for range 10_000 {
		x := tasks[random.IntN(len(tasks))]
		if random.IntN(3) == 0 {
			h.Remove(x)
			delete(in, x)
		} else {
			x.at = random.IntN(100)
			in[x] = true
			require.Equal(t, h.Put(x), h[0] == x)
		}
		require.Len(t, h, len(in))
		require.Equal(t, in[x], x.InHeap())
		for _, x := range h {
			require.True(t, in[x])
			require.LessOrEqual(t, h[0].at, x.at)
		}
	}
	var order []int
	for len(h) > 0 {
		first := h[0]
		order = append(order, first.at)
		h.Remove(first)
		require.False(t, first.InHeap())
	}
	require.True(t, slices.IsSorted(order))
}
