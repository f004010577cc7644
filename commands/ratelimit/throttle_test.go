package ratelimit

import (
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

func TestThrottleErrorsAreThoseOfRedisCell(t *testing.T) {
	for line, want := range map[string]string{
		"CL.THROTTLE":                                      errCellUsage,
		"CL.THROTTLE k 1 2":                                errCellUsage,
		"CL.THROTTLE k 1 2 3 4 5":                          errCellUsage,
		"CL.THROTTLE k x 2 3":                              errCellInteger + "x",
		"CL.THROTTLE k 1 2.5 y":                            errCellInteger + "2.5",
		`CL.THROTTLE k 1 2 3 ""`:                           errCellInteger,
		"CL.THROTTLE k 1 2 9223372036854775808":            errCellInteger + "9223372036854775808",
		"CL.THROTTLE k 1 2 -":                              errCellInteger + "-",
		"CL.THROTTLE k 1 0 60":                             errCellZero,
		"CL.THROTTLE k 1 10 0":                             errCellZero,
		"CL.THROTTLE k 1 2000000000 1":                     errCellZero, // more than one per ns
		"CL.THROTTLE k -1 10 60":                           errCellRange,
		"CL.THROTTLE k 1 -10 60":                           errCellRange,
		"CL.THROTTLE k 1 10 -60":                           errCellRange,
		"CL.THROTTLE k 1 -10 -60":                          errCellRange,
		"CL.THROTTLE k 1 10 60 -1":                         errCellRange,
		"CL.THROTTLE k 9 1 920000000 10":                   errCellRange,
		"CL.THROTTLE k 0 1 4611686019":                     errCellRange, // 2^62 ns, and some
		"CL.THROTTLE k 0 1000000000 9223372037":            errCellRange, // 2^63 ns, and some
		"CL.THROTTLE k 1000000000000 1000 1":               errCellRange,
		"CL.THROTTLE k 0 1000 1 1000000000001":             errCellRange,
		"CL.THROTTLE k 9223372036854775807 1 1":            errCellRange,
		"CL.THROTTLE k 9223372036854775806 1 1":            errCellRange,
		"CL.THROTTLE k 1 1 9223372036854775807":            errCellRange,
		"CL.THROTTLE k 1 1 60 9223372036854775807":         errCellRange,
		`CL.THROTTLE "" 1 1 60`:                            reply.ErrKey + "; it had 0",
		"CL.THROTTLE k \"a\\x00b\" 1 60":                   errCellInteger + "a",
		"CL.THROTTLE k \"\\xff\" 1 60":                     errCellInteger,
		"CL.THROTTLE k 1 1 60 " + strings.Repeat("y", 200): errCellInteger + strings.Repeat("y", 128),
	} {
		_, got := parseLine(proxytest.Words(t, line))
		require.Equal(t, want, got, line)
	}
}

func TestThrottleParsesIntegersAsRustDoes(t *testing.T) {
	want := engine.Request{Key: []byte("k"), Spec: limit.Spec{
		Kind: limit.GCRA, N: 1, Cost: 1, Manner: 2_000_000_000, Windows: [limit.MaxWindows]limit.Window{{Limit: 16}},
	}}
	for _, line := range []string{"CL.THROTTLE k 15 30 60", "cl.throttle k +15 030 60 1"} {
		got, msg := parseLine(proxytest.Words(t, line))
		require.Empty(t, msg, line)
		require.Equal(t, want, got, line)
	}
	for _, line := range []string{"CL.THROTTLE k 0 1 4611686018", "CL.THROTTLE k 0 1000000000 9223372036", "CL.THROTTLE k 999999999999 1000 1 1000000000000"} {
		_, msg := parseLine(proxytest.Words(t, line))
		require.Empty(t, msg, line)
	}
	got, msg := parseLine(proxytest.Words(t, "CL.THROTTLE k 0 1000000000 1 0"))
	require.Empty(t, msg)
	require.Zero(t, got.Cost)
}
