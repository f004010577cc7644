package stats

import (
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCallsFailuresAndRejectionsAreCountedByCommand(t *testing.T) {
	s := New()
	slide, config := s.Command("rl.slide"), s.Command("config|get")
	require.Empty(t, s.Commandstats(), "a command that was not used is not listed")
	require.Empty(t, s.Latencystats())
	slide.Add(10*time.Microsecond, 3, 1)
	slide.Add(20*time.Microsecond, 1, 0)
	slide.Reject()
	config.Reject()
	s.Command("mod:get#1").Add(1500*time.Nanosecond, 2, 2)
	require.Same(t, slide, s.Command("rl.slide"))
	require.Equal(t, [][2]string{
		{"cmdstat_config|get", "calls=0,usec=0,usec_per_call=0.00,rejected_calls=1,failed_calls=0"},
		{"cmdstat_mod_get_1", "calls=2,usec=3,usec_per_call=1.50,rejected_calls=0,failed_calls=2"},
		{"cmdstat_rl.slide", "calls=4,usec=50,usec_per_call=12.50,rejected_calls=1,failed_calls=1"},
	}, s.Commandstats())
	require.Equal(t, [][2]string{
		{"latency_percentiles_usec_mod_get_1", "p50=1.500,p99=1.500,p99.9=1.500"},
		{"latency_percentiles_usec_rl.slide", "p50=10.000,p99=20.000,p99.9=20.000"},
	}, s.Latencystats())
	s.Reset()
	require.Empty(t, s.Commandstats())
	slide.Add(time.Microsecond, 1, 0)
	require.Len(t, s.Commandstats(), 1, "a reset does not end counting")
}

func TestErrorsAreCountedByTheirFirstWord(t *testing.T) {
	s := New()
	for _, reply := range []string{
		"ERR syntax error\r\n", "ERR other\r\n", "UNAVAILABLE a:1: why\r\n", "nospace\r\n", "",
		strings.Repeat("A", maxCode-1) + " b\r\n", strings.Repeat("B", maxCode) + " b\r\n", "A:B c",
	} {
		s.Error([]byte(reply))
	}
	require.Equal(t, [][2]string{
		{"errorstat_A_B", "count=1"},
		{"errorstat_" + strings.Repeat("A", maxCode-1), "count=1"},
		{"errorstat_ERR", "count=5"},
		{"errorstat_UNAVAILABLE", "count=1"},
	}, s.Errorstats())
	require.EqualValues(t, 8, s.Errors())
	s.Reset()
	require.Empty(t, s.Errorstats())
}

func TestNamesAreBounded(t *testing.T) {
	s := New()
	for i := range 2 * maxErrors {
		s.Error([]byte("E" + strconv.Itoa(i) + " x"))
	}
	s.Error([]byte("UNAVAILABLE a:1: why"))
	lines := s.Errorstats()
	require.LessOrEqual(t, len(lines), maxErrors)
	require.Contains(t, lines, [2]string{"errorstat_UNAVAILABLE", "count=1"}, "rlproxy's own errors have room")
	require.EqualValues(t, 2*maxErrors+1, s.Errors(), "none is lost")

	for i := range 2 * maxCommands {
		s.Command("c"+strconv.Itoa(i)).Add(0, 1, 0)
	}
	require.Len(t, s.Commandstats(), maxCommands)
	require.Nil(t, s.Command(""))
}

func TestCountingAllocatesNothing(t *testing.T) {
	s := New()
	c, name, reply := s.Command("get"), strings.Clone("get"), []byte("ERR no")
	count := func() {
		c.Add(time.Millisecond, 3, 1)
		c.Reject()
		s.Command(name).Add(1, 1, 0)
		s.Error(reply)
		s.Slow.Slow(time.Hour)
	}
	count()
	require.Zero(t, testing.AllocsPerRun(100, count))
}

func TestManyMayCountAtOnce(t *testing.T) {
	s := New()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 1000 {
				s.Command("c"+strconv.Itoa(j%50)).Add(time.Duration(i), 1, 0)
				s.Error([]byte("E" + strconv.Itoa(j%50) + " x"))
				if j%100 == 0 {
					s.Slow.Add(SlowCommand{Args: []string{"x"}})
					s.Slow.Configure(0, j%7)
					s.Commandstats()
				}
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 8000, s.Errors())
	calls := int64(0)
	for _, c := range s.commands.All() {
		if now := c.counts.Load(); now != nil {
			calls += now.took.Snapshot().Count
		}
	}
	require.EqualValues(t, 8000, calls)
}
