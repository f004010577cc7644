package lua

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The counters of an RL.COUNTER with many BUCKETS, whose record is not inline, are read in a few pieces: also for a denial,
// which needs all of them.
func TestManyCountersAreReadInAFewPieces(t *testing.T) {
	t.Parallel()
	s := start(t)
	reads := func() (calls int) {
		_, rest, _ := strings.Cut(s.Do("INFO", "commandstats"), "cmdstat_getrange:")
		_, err := fmt.Sscanf(rest, "calls=%d,", &calls)
		require.NoError(t, err)
		return calls
	}
	const window, step = 60_000, 590
	clock := int64(base)
	ask := func(granted byte, most int) {
		t.Helper()
		before := reads()
		require.Equal(t, granted, decide(t, s, "k", clock, all["many buckets"])[4], "granted")
		require.LessOrEqual(t, reads()-before, most)
	}
	decide(t, s, "k", clock, all["many buckets"])
	for range 99 {
		clock += step
		ask(1, 6)
	}
	for range 5 {
		ask(0, 6)
		clock++
	}
	clock = base + window + window/2 // long after the newest charge
	ask(1, 6)
}
