package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestGlobsWithManyStarsAreFast uses, wherever rlproxy takes patterns, one for which a
// backtracking matcher would take extremely long.
func TestGlobsWithManyStarsAreFast(t *testing.T) {
	t.Parallel()
	const pattern = "*a*a*a*a*a*a*a*a*a*a*b*"
	key := strings.Repeat("a", 200)
	nodes := startNodes(t, 2)
	p := startProxy(t, append(backends(nodes...), "--advance", "no", // which would admit some requests after their node is gone
		"--hot-key", pattern, "4", "--fail-policy", pattern, "open", "--user", "default on nopass ~"+pattern+" ~aaa* +@all")...)
	c := dial(t, p.addr)
	began := time.Now()
	for range 100 {
		require.Equal(t, int64(1), c.do(t, "RL.SLIDE", key, 1000, 60).([]any)[0])
		require.EqualValues(t, "OK", c.do(t, "SET", key, "x"))
		require.Empty(t, c.do(t, "CONFIG", "GET", pattern+key))
		require.Empty(t, c.do(t, "COMMAND", "LIST", "FILTERBY", "PATTERN", pattern))
	}
	for _, n := range nodes {
		n.Kill()
	}
	for range 100 { // by FAIL policy: the glob does not match
		require.Equal(t, []any{int64(0), int64(1000), int64(-1)}, c.do(t, "RL.SLIDE", key, 1000, 60).([]any)[:3])
	}
	require.Less(t, time.Since(began), 20*time.Second)
	p.stop(t)
}
