package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGCRAWithoutAQuantityAndAboveTheLimit(t *testing.T) {
	k := key{}
	require.True(t, k.one(rate(3, 1, 4), 0).Allowed)
	require.Equal(t, Decision{Allowed: true, Limit: 4, ResetAfter: 4000}, k.one(rate(3, 1, 0), 0), "nothing is asked for")
	require.Equal(t, Decision{Limit: 4, RetryAfter: -1, ResetAfter: 4000}, k.one(rate(3, 1, 5), 0), "waiting never helps")
	require.Equal(t, Decision{Limit: 2, RetryAfter: 2000, ResetAfter: 4000}, k.one(rate(1, 1, 0), 0), "of a lowered limit even nothing is too much")
}

// A rate is kept by a clock in us, whether its interval is a number of whole ms or not.
func TestGCRAWithinAMillisecond(t *testing.T) {
	for _, count := range []int64{300, 350, 900, 5000, 100_000} {
		for _, burst := range []int64{0, 9} {
			s, k := rate(burst, count, 1), key{}
			admitted := int64(0)
			const us = 200_000
			for at := range int64(us) {
				if k.ask(s, at*1000, 1)[0].Allowed {
					admitted++
				}
			}
			most := burst + (us-1)*1000/s.Manner + 1
			require.LessOrEqual(t, admitted, most, "%d a second", count)
			require.GreaterOrEqual(t, admitted, most-most/250, "%d a second: a request comes up to 1 us late", count)
		}
	}
}

// What remains is what would be admitted, also if the interval is not a number of whole us, where redis-cell says more.
func TestGCRARemaining(t *testing.T) {
	for _, count := range []int64{3, 6000, 700_000, 3_000_000, 1_000_000_000} {
		s, k := rate(6000, count, 1), key{}
		for left := int64(6000); left >= 0; left-- {
			require.Equal(t, left, k.one(s, 0).Remaining, "%d a second", count)
		}
		denied := Decision{Limit: 6001, RetryAfter: s.Manner / nsPerMs, ResetAfter: 6001 * s.Manner / nsPerMs}
		require.Equal(t, denied, k.one(s, 0))
	}
}

// An interval shorter than a ms is exact over many requests.
func TestGCRABelowAMillisecond(t *testing.T) {
	s, k := rate(0, 3000, 1), key{} // one every 333,333 ns
	admitted := 0
	for ms := range int64(1000) {
		for k.one(s, ms).Allowed {
			admitted++
		}
	}
	require.Equal(t, 1000, admitted, "one at a time, so one a ms")
	s, k = rate(9, 3000, 1), key{}
	admitted = 0
	for ms := range int64(1000) {
		for k.one(s, ms).Allowed {
			admitted++
		}
	}
	require.InDelta(t, 3000+9, admitted, 2)
}
