package shrink_test

import (
	"testing"

	"github.com/rlproxy/rlproxy/internal/shrink"
	"github.com/stretchr/testify/require"
)

func TestMapIsCopiedWhenItHasBecomeSmall(t *testing.T) {
	m, most := make(map[int]int), 0
	for i := range 1000 {
		m[i], most = -i, i+1
	}
	large := m
	for i := range 999 {
		delete(m, i)
		m = shrink.Map(m, &most)
		require.Len(t, m, 999-i)
		require.Equal(t, -999, m[999])
	}
	require.Len(t, large, 249, "entries when the map was copied")
	require.LessOrEqual(t, most, 64)
}
