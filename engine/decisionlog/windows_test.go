package decisionlog

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Ten thousand keys that are denied again and again have a line in each of their windows. Hardly
// a group has more of them than places: three would fail the test, once in 100,000 runs.
func TestManyKeysHaveOneLineEach(t *testing.T) {
	t.Parallel()
	w := newWindows()
	const keys = 10_000
	lines := 0
	for round := range 5 {
		for i := range keys {
			a := slide(fmt.Sprint("key", i)).per(60_000)
			if w.first(&a.Request, &a.Result, time.Duration(round)*time.Second, nil) == isFirst {
				lines++
			}
		}
	}
	require.GreaterOrEqual(t, lines, keys, "a first denial was missed")
	require.Less(t, lines, keys+keys/50)
}

// When a group is full, the window that ends first makes room, and its key may have another
// line. A new key's first denial is never missed.
func TestAFullTableMissesNoFirstDenial(t *testing.T) {
	t.Parallel()
	w := newWindows()
	const keys = 3 * windowGroups * len(group{}.places)
	for i := range keys {
		a := slide(fmt.Sprint("key", i)).per(60_000)
		require.Equal(t, isFirst, w.first(&a.Request, &a.Result, time.Duration(i), nil), i)
	}
	long, short := slide("long").per(60_000), slide("short")
	require.Equal(t, isFirst, w.first(&long.Request, &long.Result, time.Second, nil))
	require.Equal(t, isFirst, w.first(&short.Request, &short.Result, time.Second, nil))
	require.Equal(t, isNot, w.first(&long.Request, &long.Result, 2*time.Second, nil))
}

// However many connections ask, one of them finds that a denial is the first.
func TestOneOfManyIsTheFirst(t *testing.T) {
	t.Parallel()
	w := newWindows()
	var first atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 500 {
				a := slide(fmt.Sprint("key", i))
				if w.first(&a.Request, &a.Result, 0, nil) == isFirst {
					first.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.EqualValues(t, 500, first.Load())
}
