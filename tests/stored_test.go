package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// requireMortal walks all keys of a node: each belongs to rlproxy and has a time to
// live, or has just ended.
func requireMortal(t *testing.T, n *node) {
	t.Helper()
	for _, key := range n.keys(t) {
		require.True(t, strings.HasPrefix(key, "rl:{"), "%q", key)
		ttl, err := n.PTTL(context.Background(), key).Result()
		require.NoError(t, err)
		require.NotEqual(t, time.Duration(-1), ttl, "%q has no time to live", key)
	}
}

// TestTimeToLive makes states of every kind, by charges, denials, questions and
// changed limits. Each client key is one stored key, which ends when it can matter
// no more.
func TestTimeToLive(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := dial(t, p.addr)
	for line, most := range map[string]time.Duration{
		"RL.SLIDE slide 3 60":                          61 * time.Second,
		"RL.SLIDE two 3 60 2 1h":                       3601 * time.Second,
		"RL.SLIDE large 1000000000000 366d":            367 * 24 * time.Hour,
		"RL.COUNTER pair 3 60":                         121 * time.Second,
		"RL.COUNTER many 3 60 BUCKETS 60":              62 * time.Second,
		"RL.COUNTER strict 3 10 4 60 BUCKETS 7 STRICT": 70 * time.Second,
		"RL.FIXED fixed 3 60":                          61 * time.Second,
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
		require.LessOrEqual(t, ttl, most, line)
	}
	c.decide(t, "RL.SLIDE never-charged 3 60 COST 0")
	require.Len(t, n.keys(t), 7)
	requireMortal(t, n)

	c.decide(t, "RL.SLIDE brief 3 20ms")
	c.decide(t, "RL.FIXED brief 3 30ms")
	eventually(t, "a brief key to end", func() bool {
		return n.Exists(context.Background(), "rl:{brief}").Val() == 0
	})
	p.stop(t)
}

// TestTimesToLiveOfOneCall has one pipeline, which is one call of a script, make keys that end at different times.
func TestTimesToLiveOfOneCall(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	var pipeline [][]any
	for i := range 12 {
		pipeline = append(pipeline, words(fmt.Sprintf("RL.SLIDE k%d 10 %d", i, 100*(i%3+1))))
	}
	dial(t, p.addr).pipeline(t, pipeline...)
	for i := range pipeline {
		most := time.Duration(100*(i%3+1)) * time.Second
		ttl, err := n.PTTL(context.Background(), fmt.Sprintf("rl:{k%d}", i)).Result()
		require.NoError(t, err)
		require.LessOrEqual(t, ttl, most)
		require.Greater(t, ttl, most-50*time.Second)
	}
	p.stop(t)
}

// memory is what a stored key takes on its node, in bytes.
func memory(t *testing.T, n *node, key string) int64 {
	t.Helper()
	bytes, err := n.MemoryUsage(context.Background(), "rl:{"+key+"}", 0).Result()
	require.NoError(t, err)
	return bytes
}

// TestMemoryOfLog fills a log with units of different milliseconds.
func TestMemoryOfLog(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := dial(t, p.addr)
	const limit = 1000
	for range limit {
		require.Equal(t, int64(1), c.decide(t, "RL.SLIDE log 1000 1h").allowed)
		for last := time.Now().UnixMilli(); time.Now().UnixMilli() == last; {
			// less than a millisecond: shorter than any sleep
		}
	}
	require.Equal(t, int64(0), c.decide(t, "RL.SLIDE log 1000 1h").allowed)
	used := memory(t, n, "log")
	t.Logf("%d bytes, %.1f a unit", used, float64(used)/limit)
	require.LessOrEqual(t, used, int64(20*limit))
	p.stop(t)
}

// TestMemoryOfMillion admits a million units within a minute, in as many
// milliseconds as that takes.
func TestMemoryOfMillion(t *testing.T) {
	n := startNode(t)
	p := startProxy(t, backends(n)...)
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

	// One charge is one entry, however many units it has.
	c.decide(t, "RL.SLIDE one 1000000000000 1h COST 1")
	c.decide(t, "RL.SLIDE trillion 1000000000000 1h COST 999999999999")
	require.LessOrEqual(t, memory(t, n, "trillion"), memory(t, n, "one")+64)
	p.stop(t)
}

// TestMemoryOfCounter holds the size of the classic pair, both counters in use,
// for small limits and the largest.
func TestMemoryOfCounter(t *testing.T) {
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
