package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStateIsNamedByKindWindowAndBuckets(t *testing.T) {
	s := spec(Counter, 5, 1000)
	var st State
	st.Init(s, s.Windows[0])
	require.True(t, st.Is(s, 1000))
	require.False(t, st.Is(s, 1001))
	require.False(t, st.Is(spec(Fixed, 5, 1000), 1000))
	other := *s
	other.Param = 2
	require.False(t, st.Is(&other, 1000))
	other = *s
	other.Manner, other.Cost = Strict, 7
	require.True(t, st.Is(&other, 1000), "how it is asked does not matter")
}

// The rate counts charging calls; those of the previous second are weighted by their overlap.
func TestRateOfCharges(t *testing.T) {
	s, k := spec(Slide, 1000, 60_000), key{}
	for range 10 {
		k.one(s, 500)
	}
	require.EqualValues(t, 10, k.state.Rate(testBase+999))
	require.EqualValues(t, 5, k.state.Rate(testBase+1500))
	k.one(s, 1500)
	require.EqualValues(t, 6, k.state.Rate(testBase+1500))
	require.EqualValues(t, 1, k.state.Rate(testBase+2000))
	require.EqualValues(t, 0, k.state.Rate(testBase+4000))
}

// Growth predicts the memory that a charge takes, for every kind.
func TestGrowthIsWhatAChargeTakes(t *testing.T) {
	for _, kind := range []Kind{Slide, Counter, Fixed} {
		s := spec(kind, 1_000_000, 50)
		var st State
		st.Init(s, s.Windows[0])
		require.Equal(t, s.FreshBytes(), st.Bytes())
		for ms := range int64(500) {
			if ms > 300 && ms < 480 {
				continue // all entries end: the ring shrinks
			}
			before, now := st.Bytes(), testBase+ms
			r := st.Read(now, s)
			growth := st.Growth(now, s.Windows[0], r)
			st.Charge(now, s, s.Windows[0], 1, r)
			require.Equal(t, before+growth, st.Bytes(), "%v at %d", kind, ms)
		}
	}
}
