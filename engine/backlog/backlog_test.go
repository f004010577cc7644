package backlog

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// opened returns a queue with bounds.
func opened(b Bounds) *Queue[int] {
	q := new(Queue[int])
	q.Open(b)
	return q
}

// tenMS is a room for batches.
func tenMS() time.Duration { return 10 * time.Millisecond }

// take takes a batch.
func take(q *Queue[int]) []int {
	items, _ := q.Take(nil, tenMS)
	return items
}

// A batch is the oldest run, whatever its cost, and all others that fit within the bounds of items and cost. The rest keep their
// order.
func TestABatchIsClosedByItemsAndByCost(t *testing.T) {
	t.Parallel()
	q := opened(Bounds{Waiting: 100, InFlight: 10, Items: 4})
	for _, r := range []struct {
		items []int
		cost  time.Duration
	}{{[]int{1, 2}, 1}, {[]int{3, 4}, 1}, {[]int{5}, 1}, {[]int{6}, 9}, {[]int{7}, 1}, {[]int{8, 9, 10, 11, 12}, 1}, {nil, 1}, {[]int{13}, 20}, {[]int{14}, 0}} {
		require.NoError(t, q.Add(r.items, r.cost*time.Millisecond))
	}
	for _, want := range []struct {
		items []int
		cost  time.Duration
	}{{[]int{1, 2, 3, 4}, 2}, {[]int{5, 6, 14}, 10}, {[]int{7}, 1}, {[]int{8, 9, 10, 11, 12}, 1}, {[]int{13}, 20}} {
		items, cost := q.Take(nil, tenMS)
		require.Equal(t, want.items, items)
		require.Equal(t, want.cost*time.Millisecond, cost)
	}
	require.Zero(t, q.Waiting())
	require.Equal(t, 5, q.Busy())
}

func TestAFullQueueTakesNoRun(t *testing.T) {
	t.Parallel()
	q := opened(Bounds{Waiting: 3, InFlight: 1, Items: 10})
	require.NoError(t, q.Add([]int{1, 2}, 0))
	require.ErrorIs(t, q.Add([]int{3, 4}, 0), ErrFull)
	require.NoError(t, q.Add([]int{5}, 0))
	require.Equal(t, []int{1, 2, 5}, take(q))
	require.NoError(t, q.Add([]int{6, 7, 8}, 0))
}

func TestOnlyAnIdleNodeIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	q := opened(Bounds{Waiting: 3, InFlight: 2, Items: 10})
	never := func() { t.Error("called") }
	asked := false
	require.True(t, q.DoIfIdle(func() {
		asked = true
		require.False(t, q.DoIfIdle(never), "a batch is under way")
	}))
	require.True(t, asked)
	require.NoError(t, q.Add([]int{1}, 0))
	require.False(t, q.DoIfIdle(never), "a run waits")
	take(q)
	require.False(t, q.DoIfIdle(never), "a batch is under way")
	q.End()
	require.True(t, q.DoIfIdle(func() {}))
	q.Close()
	require.False(t, q.DoIfIdle(never))
	require.ErrorIs(t, q.Add([]int{1}, 0), ErrClosed)
}

// Workers that wait while the queue is closed end, and so does Close, whoever takes the last run.
func TestWorkersEndWithTheirQueue(t *testing.T) {
	t.Parallel()
	for range 100 {
		q := opened(Bounds{Waiting: 3, InFlight: 1, Items: 1})
		require.NoError(t, q.Add([]int{1}, 0))
		require.NoError(t, q.Add([]int{2}, 0))
		require.Len(t, take(q), 1)
		var waits sync.WaitGroup
		for range 2 {
			waits.Go(func() { // until the queue is closed and empty
				for take(q) != nil {
					q.End()
				}
			})
		}
		runtime.Gosched()
		waits.Go(q.Close) // until all is taken
		runtime.Gosched()
		q.End()
		waits.Wait()
		require.Zero(t, q.Busy()+q.Waiting())
	}
}
