package traffic

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Benchmark runs redis-benchmark, which is told everything by args but the form of its
// output. It returns the rate, P50 and P99, and the CPU time that redis-benchmark used. It ends at the first
// error reply.
func Benchmark(ctx context.Context, args ...string) (f Figures, cpu time.Duration, err error) {
	cmd := exec.CommandContext(ctx, "redis-benchmark", slices.Concat([]string{"--csv"}, args)...) // #nosec G204 -- our own arguments
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return f, 0, fmt.Errorf("redis-benchmark: %w: %s", err, failure.String())
	}
	f, err = readTable(out.String())
	return f, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime(), err
}

// readTable reads redis-benchmark's table.
func readTable(out string) (f Figures, err error) {
	at := strings.Index(out, `"test",`)
	if at < 0 {
		return f, fmt.Errorf("redis-benchmark wrote no table: %q", out)
	}
	table := csv.NewReader(strings.NewReader(out[at:]))
	table.LazyQuotes = true
	lines, err := table.ReadAll()
	if err != nil || len(lines) != 2 {
		return f, fmt.Errorf("redis-benchmark wrote another table: %q: %w", out, err)
	}
	number := func(column string) float64 {
		i := slices.Index(lines[0], column)
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("redis-benchmark has no column %s", column))
			return 0
		}
		v, wrong := strconv.ParseFloat(lines[1][i], 64)
		err = errors.Join(err, wrong)
		return v
	}
	f.Rate, f.P50, f.P99 = number("rps"), number("p50_latency_ms")*1000, number("p99_latency_ms")*1000
	return f, err
}
