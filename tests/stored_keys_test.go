package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// linger is for how long a node stores a key that no longer matters.
const linger = time.Second

// requireExpiring checks that each key of a node belongs to rlproxy and has a time to live,
// unless it has just expired.
func requireExpiring(t *testing.T, n *node) {
	t.Helper()
	for _, key := range n.keys(t) {
		require.True(t, strings.HasPrefix(key, "rl:{"), "%q", key)
		ttl, err := n.PTTL(context.Background(), key).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), ttl, "%q has no time to live", key)
	}
}

// TestEveryStoredKeyExpires creates states of every kind, with charges, denials, requests of
// cost 0 and changed limits. Each client key has one stored key, which expires when it has not
// mattered for as long as it lingers.
func TestEveryStoredKeyExpires(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := dial(t, p.addr)
	for line, longest := range map[string]time.Duration{
		"RL.SLIDE slide 3 60":                          60*time.Second + linger,
		"RL.SLIDE two 3 60 2 1h":                       3600*time.Second + linger,
		"RL.SLIDE large 1000000000000 366d":            367 * 24 * time.Hour,
		"RL.COUNTER pair 3 60":                         120*time.Second + linger,
		"RL.COUNTER many 3 60 BUCKETS 60":              61*time.Second + linger,
		"RL.COUNTER strict 3 10 4 60 BUCKETS 7 STRICT": 70 * time.Second,
		"RL.FIXED fixed 3 60":                          60*time.Second + linger,
	} {
		for range 5 {
			c.decide(t, line)
			c.decide(t, line+" COST 0")
		}
		c.decide(t, strings.Replace(line, " 3 ", " 1 ", 1))
		key := "rl:{" + strings.Fields(line)[1] + "}"
		ttl, err := n.PTTL(context.Background(), key).Result()
		require.NoError(t, err)
		require.Positive(t, ttl, line)
		require.LessOrEqual(t, ttl, longest, line)
	}
	c.decide(t, "RL.SLIDE never-charged 3 60 COST 0")
	require.Len(t, n.keys(t), 7)
	requireExpiring(t, n)

	c.decide(t, "RL.SLIDE brief 3 20ms")
	c.decide(t, "RL.FIXED brief 3 30ms")
	eventually(t, "a key with brief windows to expire", func() bool {
		return n.Exists(context.Background(), "rl:{brief}").Val() == 0
	})
	p.stop(t)
}

// TestKeysOfOneCallExpireAtTheirOwnTimes creates keys with different windows in one pipeline,
// which is one call of a function.
func TestKeysOfOneCallExpireAtTheirOwnTimes(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	var pipeline [][]any
	for i := range 12 {
		pipeline = append(pipeline, words(fmt.Sprintf("RL.SLIDE k%d 10 %d", i, 100*(i%3+1))))
	}
	dial(t, p.addr).pipeline(t, pipeline...)
	for i := range pipeline {
		longest := time.Duration(100*(i%3+1)) * time.Second
		ttl, err := n.PTTL(context.Background(), fmt.Sprintf("rl:{k%d}", i)).Result()
		require.NoError(t, err)
		require.LessOrEqual(t, ttl, longest+linger)
		require.Greater(t, ttl, longest-50*time.Second)
	}
	p.stop(t)
}
