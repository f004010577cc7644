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

// Records that an earlier version stored, with a count instead of a running total for each sub-window, count as ever, and
// get totals when they are charged.
func TestCountsOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	s := start(t)
	const window, names, fields = 60_000, 3, 3 + 2*13 // the indexes of the names and fields of a record with two states
	for _, n := range []int64{2, 10, 1000} {
		counter := func(cost uint64, strict byte) string {
			return spec(2, strict, cost, uint16(n), struct{ ms, limit uint64 }{window, 50})
		}
		fixed := spec(3, 0, 1, 1, struct{ ms, limit uint64 }{window, 1000})
		for _, later := range []int64{0, 1, 90, 7_000, 31_000, 59_999, 60_000, 65_000, 130_000} {
			s.Do("FLUSHALL")
			clock := int64(base)
			for i := range int64(20) {
				clock = base + 2*window + i*i*131
				decide(t, s, "new", clock, counter(uint64(1+i%3), 0))
			}
			decide(t, s, "new", clock, fixed)
			now := text(t, s, "new")
			require.Equal(t, byte(2), now[names], "RL.COUNTER is the first state")
			old := []byte(now)
			number := func(at, bytes int64) (v uint64) {
				for _, b := range []byte(now[at : at+bytes]) {
					v = v<<8 | uint64(b)
				}
				return v
			}
			used := number(fields+10, 6) - 1<<47
			copy(old[fields+10:], put(nil, used, 6))
			areas, last := int64(len(now))-(n+1)*5, int64(number(fields, 6))
			was := last * n / window
			before := number(areas+was%(n+1)*5, 5) - used
			for k := was - n; k <= was; k++ {
				at := areas + k%(n+1)*5
				total := number(at, 5)
				copy(old[at:], put(nil, total-before, 5))
				before = total
			}
			s.Do("SET", "old", string(old))
			clock += later
			for i, ask := range []string{counter(30, 0), counter(30, 1), fixed, counter(45, 0), counter(0, 1), counter(3, 0), counter(40, 0)} {
				require.Equal(t, decide(t, s, "new", clock, ask), decide(t, s, "old", clock, ask), "%d BUCKETS, question %d, %d ms later", n, i, later)
			}
			require.Equal(t, text(t, s, "new"), text(t, s, "old"))
		}
	}
}
