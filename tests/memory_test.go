package tests

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// memory returns how many bytes a stored key takes on its node.
func memory(t *testing.T, n *node, key string) int64 {
	t.Helper()
	bytes, err := n.MemoryUsage(context.Background(), "rl:{"+key+"}", 0).Result()
	require.NoError(t, err)
	return bytes
}

// TestLogOfAThousandUnitsIsSmall fills a log with units that were admitted in different
// milliseconds.
func TestLogOfAThousandUnitsIsSmall(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, append(backends(n), "--advance", "no")...) // else one that lapses on a busy machine denies
	c := dial(t, p.addr)
	const limit = 1000
	for range limit {
		require.Equal(t, int64(1), c.decide(t, "RL.SLIDE log 1000 1h").allowed)
		for last := time.Now().UnixMilli(); time.Now().UnixMilli() == last; {
			// This waits for less than a millisecond, which is shorter than any sleep.
		}
	}
	require.Equal(t, int64(0), c.decide(t, "RL.SLIDE log 1000 1h").allowed)
	used := memory(t, n, "log")
	t.Logf("%d bytes, %.1f a unit", used, float64(used)/limit)
	require.LessOrEqual(t, used, int64(20*limit))
	p.stop(t)
}

// TestMillionUnitsFitInOneKey admits a million units within a minute.
func TestMillionUnitsFitInOneKey(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, append(backends(n), "--advance", "no")...) // as above
	c := dial(t, p.addr)
	pipeline := make([][]any, 100)
	for i := range pipeline {
		pipeline[i] = words("RL.SLIDE million 1000000 60 COST 10")
	}
	began := time.Now()
	for range 1000 {
		require.Equal(t, int64(len(pipeline)), countAllowed(t, c.pipeline(t, pipeline...)))
	}
	require.Less(t, time.Since(began), time.Minute)
	require.Equal(t, int64(0), c.decide(t, "RL.SLIDE million 1000000 60").allowed)
	used := memory(t, n, "million")
	t.Logf("%d bytes", used)
	require.LessOrEqual(t, used, int64(1_500_000))

	// A charge is one entry of the log, however many units it has.
	c.decide(t, "RL.SLIDE one 1000000000000 1h COST 1")
	c.decide(t, "RL.SLIDE trillion 1000000000000 1h COST 999999999999")
	require.LessOrEqual(t, memory(t, n, "trillion"), memory(t, n, "one")+64)
	p.stop(t)
}

// TestCounterPairIsSmall checks the size of RL.COUNTER's pair of counters, both in use, for
// small limits and the largest.
func TestCounterPairIsSmall(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := dial(t, p.addr)
	for i, limit := range []int64{10, 1_000_000, 1_000_000_000_000} {
		key := fmt.Sprintf("sixteen-bytes-%02d", i)
		require.Len(t, key, 16)
		line := fmt.Sprintf("RL.COUNTER %s %d 500ms COST %d", key, limit, limit/2)
		boundary := time.UnixMilli((serverTime(t, c).UnixMilli()/500 + 1) * 500)
		c.decide(t, line)
		waitUntil(t, c, boundary)
		c.decide(t, line)
		used := memory(t, n, key)
		t.Logf("limit %d: %d bytes", limit, used)
		require.LessOrEqual(t, used, int64(128))
	}
	p.stop(t)
}
