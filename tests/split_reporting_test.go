package tests

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSplitByLoadIsReported sends requests for a key until it is split, then far fewer until the
// split ends. INFO, RL.INSPECT, RL.HOTKEYS and the log report both.
func TestSplitByLoadIsReported(t *testing.T) {
	t.Parallel()
	const splitByLoad, cooled = `msg="splitting a key because of its load"`, "no longer splitting a key because of its load"
	nodes := startNodes(t, 4)
	// Units that are advanced make calls so few that there is no load by which to split.
	p := startProxy(t, append(backends(nodes...), "--hot-key-threshold", "100", "--advance", "no")...)
	c := dial(t, p.addr)
	var asked int64
	busy := func() {
		for range 10 {
			require.Equal(t, int64(1), c.decide(t, "RL.SLIDE busy 1000000 10m").allowed)
			asked++
		}
		c.decide(t, "RL.SLIDE mild 20 10m")
	}
	busy()
	require.Zero(t, c.info(t, "splits_by_load"))
	require.Empty(t, c.inspect(t, "busy").shards)

	var s keyState
	eventually(t, "all shards to have a loan", func() bool {
		busy()
		s = c.inspect(t, "busy")
		return len(s.shards) == len(nodes)
	})
	require.Equal(t, asked, s.used)
	home, seen, sum := s.shards[0], map[string]bool{}, int64(0)
	require.Equal(t, home.used, home.held, "the home lent something to itself")
	for i, s := range s.shards {
		seen[s.node] = true
		sum += s.used
		require.GreaterOrEqual(t, s.held, s.used)
		require.LessOrEqual(t, s.lease, int64(1000))
		if i > 0 {
			require.GreaterOrEqual(t, s.held, int64(1000), "a loan out of a million")
		}
	}
	for _, n := range nodes {
		require.True(t, seen[n.Addr], "there is no shard on %s", n.Addr)
	}
	require.Equal(t, asked, sum)
	for name, least := range map[string]int64{"splits": 1, "splits_by_load": 1, "split_loans": 3, "split_home_calls": 3} {
		require.GreaterOrEqual(t, c.info(t, name), least, name)
	}

	eventually(t, "the mild key to be denied", func() bool {
		busy()
		keys := c.hotKeys(t, 10)
		return len(keys) == 2 && keys[1].denied > 0
	})
	keys := c.hotKeys(t, 10)
	require.Equal(t, "busy", keys[0].key)
	require.Equal(t, "mild", keys[1].key)
	require.Greater(t, keys[0].rate, keys[1].rate)
	require.LessOrEqual(t, keys[0].admitted, asked)
	require.Greater(t, keys[0].admitted, asked-16, "RL.HOTKEYS counts a busy key from its first requests on")
	require.Zero(t, keys[0].denied)
	require.LessOrEqual(t, keys[1].admitted, int64(20))
	require.Equal(t, int64(len(nodes)), keys[0].shards)
	require.Equal(t, int64(1), keys[1].shards)
	require.Equal(t, keys[:1], c.hotKeys(t, 1)[:1])
	require.Equal(t, 1, strings.Count(p.Output.String(), splitByLoad))
	require.NotContains(t, p.Output.String(), cooled)

	eventually(t, "the key to cool", func() bool {
		time.Sleep(50 * time.Millisecond) // keeps the rate below the threshold
		c.decide(t, "RL.SLIDE busy 1000000 10m")
		asked++
		// RL.HOTKEYS may report the shards for as long as their loans count.
		return c.info(t, "splits_by_load") == 0 && strings.Contains(p.Output.String(), cooled)
	})
	require.Equal(t, 1, strings.Count(p.Output.String(), splitByLoad))
	require.Equal(t, 1, strings.Count(p.Output.String(), cooled))
	require.Equal(t, asked, c.inspect(t, "busy").used, "what the shards have admitted still counts")
	p.stop(t)
}
