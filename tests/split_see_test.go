package tests

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// hotKey is a line of RL.HOTKEYS.
type hotKey struct {
	key                            string
	rate, admitted, denied, shards int64
}

func (c *conn) hotKeys(t *testing.T, count int) []hotKey {
	t.Helper()
	lines, ok := c.do(t, "RL.HOTKEYS", "COUNT", count).([]any)
	require.True(t, ok)
	keys := make([]hotKey, len(lines))
	for i, line := range lines {
		f := line.([]any)
		keys[i] = hotKey{f[0].(string), f[1].(int64), f[2].(int64), f[3].(int64), f[4].(int64)}
	}
	return keys
}

// info returns a number of INFO's section about the engine.
func (c *conn) info(t *testing.T, name string) int64 {
	t.Helper()
	text, ok := c.do(t, "INFO", "engine").(string)
	require.True(t, ok)
	_, rest, found := strings.Cut(text, "\r\n"+name+":")
	require.True(t, found, "%s in %q", name, text)
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	require.NoError(t, err)
	return n
}

// TestSplitIsSeen has load split a key, and lets it cool again, and follows that by what
// a proxy tells and logs.
func TestSplitIsSeen(t *testing.T) {
	const splitByLoad, cooled = "a key is split by load", "has cooled"
	nodes := startNodes(t, 4)
	p := startProxy(t, append(backends(nodes...), "--hot-key-threshold", "100")...)
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
	require.Empty(t, c.inspect(t, "busy").parts)

	var s keyState
	eventually(t, "all parts to be lent to", func() bool {
		busy()
		s = c.inspect(t, "busy")
		return len(s.parts) == len(nodes)
	})
	require.Equal(t, asked, s.used)
	home, seen, sum := s.parts[0], map[string]bool{}, int64(0)
	require.Equal(t, home.used, home.held, "the home lends to itself nothing")
	for i, part := range s.parts {
		seen[part.node] = true
		sum += part.used
		require.GreaterOrEqual(t, part.held, part.used)
		require.LessOrEqual(t, part.lease, int64(1000))
		if i > 0 {
			require.GreaterOrEqual(t, part.held, int64(1000), "a piece of a million")
		}
	}
	for _, n := range nodes {
		require.True(t, seen[n.Addr], "a part on each node")
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
	require.Greater(t, keys[0].admitted, asked-16, "a busy key is soon watched")
	require.Zero(t, keys[0].denied)
	require.LessOrEqual(t, keys[1].admitted, int64(20))
	require.Equal(t, int64(len(nodes)), keys[0].shards)
	require.Equal(t, int64(1), keys[1].shards)
	require.Equal(t, keys[:1], c.hotKeys(t, 1)[:1])
	require.Equal(t, 1, strings.Count(p.Output.String(), splitByLoad))
	require.NotContains(t, p.Output.String(), cooled)

	eventually(t, "the key to cool", func() bool {
		time.Sleep(50 * time.Millisecond) // so that it is asked about seldom
		c.decide(t, "RL.SLIDE busy 1000000 10m")
		asked++
		// RL.HOTKEYS may tell of the sub-shards for as long as what they were lent counts.
		return c.info(t, "splits_by_load") == 0
	})
	require.Equal(t, 1, strings.Count(p.Output.String(), splitByLoad))
	require.Equal(t, 1, strings.Count(p.Output.String(), cooled))
	require.Equal(t, asked, c.inspect(t, "busy").used, "what parts have admitted counts on")
	p.stop(t)
}
