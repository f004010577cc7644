package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGrid(t *testing.T) {
	for _, tt := range []struct{ t, limit, w, want int64 }{
		{7, 65_536, 60_000, 7},
		{7, 65_537, 60_000, 7}, // a window of up to 65,536 ms has a grid of 1 ms
		{7, 65_537, 65_537, 8},
		{8, 65_537, 65_537, 8},
		{1, MaxLimit, MaxWindow, 482_520},
	} {
		require.Equal(t, tt.want, gridUp(tt.t, tt.limit, tt.w), "%+v", tt)
	}
}

// A clock at the epoch is wrong, but no reason to fail.
func TestSlideCountsAtTheEpoch(t *testing.T) {
	s, k := spec(Slide, 2, 1000), key{}
	for _, allowed := range []bool{true, true, false} {
		require.Equal(t, allowed, k.one(s, -testBase).Allowed)
	}
	require.EqualValues(t, 1, k.one(s, 1001-testBase).Remaining)
}

// Rings grow and shrink with the number of entries that count.
func TestLogLength(t *testing.T) {
	w := Window{Limit: MaxLimit, Length: MaxWindow}
	spec := Spec{Kind: Slide, N: 1, Cost: 1, Param: 1, Windows: [MaxWindows]Window{w}}
	var s State
	s.Init(&spec, w)
	now := int64(testBase)
	charge := func() { s.Charge(now, &spec, w, 1, s.Read(now, &spec)) }
	for range 200_000 {
		charge()
		now += 300_000
	}
	require.LessOrEqual(t, int(s.log.size), gridLimit+2)
	require.Greater(t, int(s.log.size), gridLimit-2)
	require.LessOrEqual(t, len(s.log.ring), gridLimit*5/4+8)
	now += MaxWindow
	charge()
	require.LessOrEqual(t, len(s.log.ring), 4)
	require.EqualValues(t, 1, s.Read(now, &spec).Used)
}

// A ring that shrinks keeps the entries that count, and what they count.
func TestLogShrinks(t *testing.T) {
	w := Window{Limit: 1000, Length: 1000}
	spec := Spec{Kind: Slide, N: 1, Cost: 1, Param: 1, Windows: [MaxWindows]Window{w}}
	var s State
	s.Init(&spec, w)
	charge := func(now int64) { s.Charge(now, &spec, w, 1, s.Read(now, &spec)) }
	for i := range int64(100) {
		charge(testBase + i)
	}
	const now = testBase + 95 + 1000
	charge(now)
	require.Less(t, len(s.log.ring), 17)
	require.EqualValues(t, 6, s.Read(now, &spec).Used)
}
