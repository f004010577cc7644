package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The documented examples.
func TestCounterWeighsThePreviousWindow(t *testing.T) {
	for _, tt := range []struct{ window, previous, current, elapsed, used int64 }{
		{60_000, 8, 3, 45_000, 5},
		{100, 100, 0, 71, 29},
		{10_000, 100, 15, 2000, 95},
	} {
		s, k := spec(Counter, 1_000_000, tt.window), key{}
		if tt.previous > 0 {
			s.Cost = tt.previous
			require.True(t, k.one(s, 0).Allowed)
		}
		if tt.current > 0 {
			s.Cost = tt.current
			require.True(t, k.one(s, tt.window).Allowed)
		}
		require.Equal(t, tt.used, k.state.Read(testBase+tt.window+tt.elapsed, s).Used, "%+v", tt)
	}
}

// One second on either side of a boundary, with a limit of 50 per 10 s, the weighted counter
// admits 50 and 5, and STRICT 50 and none. Waiting for as long as a denial says is enough.
func TestCounterAtABoundary(t *testing.T) {
	for _, strict := range []bool{false, true} {
		s, k := spec(Counter, 50, 10_000), key{}
		if strict {
			s.Manner = Strict
		}
		admitted := 0
		for range 100 {
			if k.one(s, 9000).Allowed {
				admitted++
			}
		}
		require.Equal(t, 50, admitted)
		d := k.one(s, 11_000)
		if !strict {
			require.True(t, d.Allowed, "five left of the weight")
			for k.one(s, 11_000).Allowed {
				continue
			}
			d = k.one(s, 11_000)
		}
		require.False(t, d.Allowed)
		require.False(t, k.one(s, 11_000+d.RetryAfter-1).Allowed)
		require.True(t, k.one(s, 11_000+d.RetryAfter).Allowed)
	}
}

// With n buckets only the oldest of n+1 counters is weighed.
func TestCounterBuckets(t *testing.T) {
	s, k := spec(Counter, 100, 1000), key{}
	s.Param = 10
	for ms := int64(0); ms < 1000; ms += 100 {
		require.True(t, k.one(s, ms).Allowed)
	}
	require.EqualValues(t, 10, k.state.Read(testBase+999, s).Used)
	require.EqualValues(t, 9, k.state.Read(testBase+1050, s).Used, "half of the first bucket's one unit counts 0")
	require.EqualValues(t, 0, k.state.Read(testBase+2000, s).Used)
	require.EqualValues(t, testBase+1999, k.state.Until())
	require.EqualValues(t, cellBytes(10), k.state.Bytes())
	require.Equal(t, k.state.Bytes(), s.FreshBytes())
}
