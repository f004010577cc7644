package tests

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shardState is what RL.INSPECT reports about one shard of a split key.
type shardState struct {
	node              string
	held, used, lease int64 // units, units, ms
}

// keyState is what RL.INSPECT reports about one state of a key.
type keyState struct {
	home                   string // the home's node
	used, limit, remaining int64
	shards                 map[int64]shardState // by number; the home is 0
}

// inspect returns the state of a key that is used with one command and one window; the
// zero state if the key is unknown or its node does not answer.
func (c *conn) inspect(t *testing.T, key string) (s keyState) {
	t.Helper()
	reply := c.do(t, "RL.INSPECT", key)
	states, ok := reply.([]any)
	if !ok {
		require.Contains(t, reply, "UNAVAILABLE")
	}
	if len(states) == 0 {
		return s
	}
	require.Len(t, states, 1)
	state := fields(t, states[0])
	s = keyState{state["node"].(string), state["used"].(int64), state["limit"].(int64), state["remaining"].(int64), make(map[int64]shardState)}
	for _, item := range state["parts"].([]any) {
		p := fields(t, item)
		s.shards[p["part"].(int64)] = shardState{p["node"].(string), p["held"].(int64), p["used"].(int64), p["lease-ms"].(int64)}
	}
	return s
}

// fields reads a reply of field names and values in turn.
func fields(t *testing.T, item any) map[string]any {
	t.Helper()
	flat, ok := item.([]any)
	require.True(t, ok)
	m := make(map[string]any)
	for i := 0; i < len(flat); i += 2 {
		m[flat[i].(string)] = flat[i+1]
	}
	return m
}

// settled returns the state of a key once it no longer changes: a loan may be on its way.
func (c *conn) settled(t *testing.T, key string) (s keyState) {
	t.Helper()
	eventually(t, "loans to arrive", func() bool {
		was, same := s, true
		s = c.inspect(t, key)
		for i, p := range s.shards {
			same = same && was.shards[i].held == p.held && was.shards[i].used == p.used
		}
		return same && len(was.shards) == len(s.shards)
	})
	return s
}

// hotKey is one line of RL.HOTKEYS.
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

// info returns a number from INFO's sections engine, policies and clients.
func (c *conn) info(t *testing.T, name string) int64 {
	t.Helper()
	text, ok := c.do(t, "INFO", "engine", "policies", "clients").(string)
	require.True(t, ok)
	_, rest, found := strings.Cut(text, "\r\n"+name+":")
	require.True(t, found, "%s in %q", name, text)
	digits, _, _ := strings.Cut(rest, "\r\n")
	n, err := strconv.ParseInt(digits, 10, 64)
	require.NoError(t, err)
	return n
}
