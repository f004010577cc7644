package stats

import (
	"fmt"
	"strings"
	"time"
)

// Commandstats returns the lines of INFO's section Commandstats: the commands that were called or rejected.
func (s *Stats) Commandstats() (lines [][2]string) {
	for name, c := range s.commands.All() {
		now := c.counts.Load()
		if now == nil {
			continue
		}
		took, perCall := now.took.Snapshot(), 0.0
		if took.Count > 0 {
			perCall = micros(took.Sum) / float64(took.Count)
		}
		lines = append(lines, [2]string{
			"cmdstat_" + safe(name),
			fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f,rejected_calls=%d,failed_calls=%d",
				took.Count, took.Sum.Microseconds(), perCall, now.rejected.Load(), now.failed.Load()),
		})
	}
	return lines
}

// Latencystats returns the lines of INFO's section Latencystats: percentiles in microseconds of
// the commands that were called.
func (s *Stats) Latencystats() (lines [][2]string) {
	for name, c := range s.commands.All() {
		now := c.counts.Load()
		if now == nil {
			continue
		}
		if took := now.took.Snapshot(); took.Count > 0 {
			lines = append(lines, [2]string{
				"latency_percentiles_usec_" + safe(name),
				fmt.Sprintf("p50=%.3f,p99=%.3f,p99.9=%.3f",
					micros(took.Quantile(.5)), micros(took.Quantile(.99)), micros(took.Quantile(.999))),
			})
		}
	}
	return lines
}

// Errorstats returns the lines of INFO's section Errorstats: the errors that were replied.
func (s *Stats) Errorstats() (lines [][2]string) {
	for code, count := range s.errors.All() {
		if n := count.Load(); n > 0 {
			lines = append(lines, [2]string{"errorstat_" + safe(code), fmt.Sprintf("count=%d", n)})
		}
	}
	return lines
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// safe returns a name without the characters that have a meaning in INFO, as Redis does.
var safe = strings.NewReplacer("#", "_", ":", "_", "\n", "_", "\r", "_").Replace
