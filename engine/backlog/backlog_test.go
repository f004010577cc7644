package backlog

import (
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// served is a batch, and its work.
type served struct {
	items []int
	work  time.Duration
}

// node is a carrier that hands in its batches, and ends one for each value of next.
type node struct {
	batches chan served
	next    chan struct{}
}

func (n *node) Serve(items []int, work time.Duration) {
	n.batches <- served{slices.Clone(items), work}
	<-n.next
}

// opened returns a queue with bounds, and the node to which its workers send.
func opened(t *testing.T, b Bounds) (*Queue[int], *node) {
	q, n := new(Queue[int]), &node{make(chan served, 100), make(chan struct{}, 100)}
	q.Open(b, func() Carrier[int] { return n })
	t.Cleanup(func() {
		close(n.next)
		q.Close()
	})
	return q, n
}

// occupy makes all batches be under way.
func occupy(t *testing.T, q *Queue[int], n *node) {
	for range InFlight {
		add(t, q, 0)
		<-n.batches
	}
}

func add(t *testing.T, q *Queue[int], items ...int) {
	t.Helper()
	require.NoError(t, q.Add(items, 0))
	q.Wake()
}

// A batch is the oldest run, whatever its work, and all others that fit within the bounds of items and work. The rest keep their
// order.
func TestABatchIsClosedByItemsAndByWork(t *testing.T) {
	t.Parallel()
	q := new(Queue[int])
	q.Open(Bounds{Waiting: 5000, Most: 8 * time.Millisecond}, nil) // so 10 ms for several runs
	q.started = InFlight                                           // none takes a batch but the test
	many := make([]int, MaxItems-4)
	for _, r := range []served{
		{[]int{1, 2}, 1}, {[]int{3, 4}, 1}, {many, 1}, {[]int{5}, 1}, {[]int{6}, 9}, {[]int{7}, 1}, {nil, 1}, {[]int{13}, 20}, {[]int{14}, 0},
	} {
		require.NoError(t, q.Add(r.items, r.work*time.Millisecond))
	}
	for _, want := range []served{
		{append([]int{1, 2, 3, 4}, many...), 3}, {[]int{5, 6, 14}, 10}, {[]int{7}, 1}, {[]int{13}, 20},
	} {
		items, work := q.moveBatch(nil)
		require.Equal(t, want.items, items)
		require.Equal(t, want.work*time.Millisecond, work)
	}
	require.Zero(t, q.Waiting())
}

func TestAFullQueueTakesNoRun(t *testing.T) {
	t.Parallel()
	q, n := opened(t, Bounds{Waiting: 3})
	occupy(t, q, n)
	add(t, q, 1, 2)
	require.ErrorIs(t, q.Add([]int{3, 4}, 0), ErrFull)
	add(t, q, 5)
	n.next <- struct{}{}
	require.Equal(t, []int{1, 2, 5}, (<-n.batches).items)
	add(t, q, 6, 7, 8)
}

func TestOnlyAnIdleNodeIsAskedAtOnce(t *testing.T) {
	t.Parallel()
	q, n := opened(t, Bounds{Waiting: 3})
	n.next <- struct{}{}
	require.True(t, q.ServeIfIdle([]int{1}, 7))
	require.Equal(t, served{[]int{1}, 7}, <-n.batches)
	for range 2 {
		go q.ServeIfIdle([]int{2}, 0) // until next
		require.Equal(t, []int{2}, (<-n.batches).items)
		require.False(t, q.ServeIfIdle([]int{3}, 0), "a batch is under way")
		n.next <- struct{}{}
		require.Eventually(t, func() bool { return q.Busy() == 0 }, 20*time.Second, time.Microsecond)
	}
	occupy(t, q, n)
	require.False(t, q.ServeIfIdle([]int{3}, 0), "batches are under way")
	require.Empty(t, n.batches)
}

// A worker that waits for something other than the node does not keep the node from being busy.
func TestAnotherWorkerTakesThePlaceOfOneThatStepsAside(t *testing.T) {
	t.Parallel()
	q, n := opened(t, Bounds{Waiting: 10, Aside: 2})
	occupy(t, q, n)
	add(t, q, 1)
	require.True(t, q.StepAside())
	require.Equal(t, []int{1}, (<-n.batches).items)
	require.True(t, q.StepAside())
	require.False(t, q.StepAside(), "as many as may")
	add(t, q, 2)
	require.Equal(t, []int{2}, (<-n.batches).items)
	q.StepBack()
	q.StepBack()
	require.Equal(t, InFlight+2, q.Busy())
	add(t, q, 3)
	for range 2 {
		n.next <- struct{}{}
		require.Eventually(t, func() bool { return len(n.next) == 0 }, 20*time.Second, time.Microsecond)
	}
	require.Equal(t, 1, q.Waiting(), "there are enough workers again")
	n.next <- struct{}{}
	require.Equal(t, []int{3}, (<-n.batches).items)
}

// Close serves what waits, whoever takes it, and ends the workers.
func TestWorkersEndWithTheirQueue(t *testing.T) {
	t.Parallel()
	for range 100 {
		q, n := new(Queue[int]), &node{make(chan served, 100), make(chan struct{}, 100)}
		q.Open(Bounds{Waiting: 10}, func() Carrier[int] { return n })
		occupy(t, q, n)
		add(t, q, 1)
		var waits sync.WaitGroup
		waits.Go(q.Close) // until all is served
		runtime.Gosched()
		close(n.next)
		waits.Wait()
		require.Equal(t, []int{1}, (<-n.batches).items)
		require.ErrorIs(t, q.Add([]int{1}, 0), ErrClosed)
		require.False(t, q.ServeIfIdle([]int{1}, 0))
		require.Zero(t, q.Busy()+q.Waiting())
		q.Close()
	}
}

// letter is an item.
type letter struct {
	Item
	name string
}

// Items that have waited for too long come after the others. Both keep their order.
func TestLateItemsAreSetApart(t *testing.T) {
	var items []letter
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		items = append(items, letter{Item{At: []time.Duration{5, 0, 9, 1, 7}[i]}, name})
	}
	names := func(items []letter) (all string) {
		for _, it := range items {
			all += it.name
		}
		return all
	}
	inTime, late, oldest := Late(items, 10, 9)
	require.Equal(t, "ace", names(inTime))
	require.Equal(t, "bd", names(late))
	require.EqualValues(t, 5, oldest)
	require.Zero(t, testing.AllocsPerRun(10, func() { Late(inTime, 10, 9) }))
	inTime, late, oldest = Late(items, 20, 9)
	require.Empty(t, inTime)
	require.Len(t, late, 5)
	require.EqualValues(t, 20, oldest)
}

func TestARedirectCountsAsAHop(t *testing.T) {
	t.Parallel()
	var it Item
	for range maxHops {
		require.False(t, it.Lost())
		it.Redirect(true)
	}
	require.True(t, it.Lost())
	require.True(t, it.Asking)
	it.Redirect(false)
	require.False(t, it.Asking)
}
