package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
