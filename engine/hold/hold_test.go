package hold

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDeadlineIsRoundedUpByAtMostA64th(t *testing.T) {
	for _, c := range []struct{ now, ttl, want int64 }{
		{1000, 1, 1001},
		{1001, 127, 1128},
		{1001, 128, 1130}, // steps of 2 ms
		{1000, 1000, 2000},
		{1001, 1000, 2008}, // of 8
		{base + 1, 60_000, base/512*512 + 60_416},
		{0, 366 * 24 * 3600 * 1000, 31_675_383_808}, // of 2^28
	} {
		require.Equal(t, c.want, Deadline(c.now, c.ttl, false), "%+v", c)
	}
	for ttl := int64(1); ttl < 1e11; ttl += ttl/7 + 1 {
		for _, now := range []int64{base, base + 1, base + 77_777} {
			d := Deadline(now, ttl, false)
			require.GreaterOrEqual(t, d, now+ttl)
			require.LessOrEqual(t, d, now+ttl+ttl/64, "ttl %d", ttl)
			d = Deadline(now, ttl, true)
			require.GreaterOrEqual(t, d, now+ttl)
			require.LessOrEqual(t, d, now+ttl+ttl/8, "ttl %d", ttl)
		}
	}
}

// The holds of all TTLs between a power of two and the next have few deadlines at any one time.
func TestCellsAreFewHoweverManyHoldsAreOut(t *testing.T) {
	for _, least := range []int64{64, 1 << 10, 60_000, 1 << 30} {
		var c Cells
		for i := range int64(16_384) {
			now := base + i*least/16_384
			c.Add(now, 1000, Deadline(now, least+(i*7919)%least, false), 1, i%2 == 0)
		}
		require.LessOrEqual(t, len(c.list), 2*129, "TTLs from %d to %d ms", least, 2*least)
		units, holds := c.Held(base)
		require.EqualValues(t, 16_384, units)
		require.EqualValues(t, 16_384, holds)
	}
}
