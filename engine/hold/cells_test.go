package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCells(t *testing.T) {
	var c Cells
	c.Add(100, 9, 300, 2, false)
	c.Add(110, 8, 200, 3, false)
	c.Add(120, 7, 200, 1, true)
	require.EqualValues(t, 7, c.limit)
	require.EqualValues(t, 120, c.Last())
	held := func(now, units, holds, lapsed int64) {
		t.Helper()
		u, h := c.Held(now)
		require.Equal(t, []int64{units, holds, lapsed}, []int64{u, h, c.Lapsed(now)})
	}
	held(199, 6, 3, 0)
	held(200, 2, 1, 2) // nothing has removed them
	held(300, 0, 0, 3)
	require.True(t, c.Has(200, 3, false))
	require.False(t, c.Has(200, 4, false))
	require.False(t, c.Has(200, 3, true))
	require.False(t, c.Has(201, 1, false))

	var charged [][2]int64
	require.EqualValues(t, 2, c.Lapse(250, func(at, units int64) { charged = append(charged, [2]int64{at, units}) }))
	require.Equal(t, [][2]int64{{200, 3}}, charged)
	held(250, 2, 1, 2)
	c.Remove(300, 2, false)
	require.True(t, c.Empty())
	held(250, 0, 0, 2)
}

// Removed cells free their memory.
func TestCellsShrink(t *testing.T) {
	var c Cells
	for i := range int64(1000) {
		c.Add(0, 1, i+1, 1, true)
	}
	full := c.Bytes()
	c.Lapse(990, nil)
	require.Less(t, c.Bytes(), full/10)
}
