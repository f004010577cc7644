package engine

import (
	"runtime"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Nobody waits for those who know the nodes: until they have said, policies answer.
func TestNobodySaysWhichNodesThereAre(t *testing.T) {
	s := redistest.Start(t)
	for _, url := range []string{"redis+sentinel://" + s.Addr + "/main", "redis+cluster://" + s.Addr} {
		e := openBackend(t, 20*time.Second, url) // a server that is neither
		from := time.Now()
		for range 100 {
			require.ErrorContains(t, do(e, charge("k", 10)).Err, "UNAVAILABLE "+s.Addr+": ")
		}
		require.Less(t, time.Since(from), 10*time.Second)
		r := charge("k", 10)
		r.Fail = PolicyOpen
		require.True(t, do(e, r).Allowed)
		require.Contains(t, info(t, e, "node0"), "state=down")
	}
}

// A planned failover of a cluster's master costs no request: the old master says
// where the slots have gone.
func TestClusterPlannedFailover(t *testing.T) {
	c := redistest.StartReplicated(t, 3)
	e := openBackend(t, 20*time.Second, c.URL())
	key := clusterKeys()[0]
	ready(t, e, key)
	left := int64(MaxLimit)
	ask := func() {
		left--
		res := do(e, charge(key, MaxLimit))
		require.NoError(t, res.Err)
		require.Equal(t, left, res.Remaining, "each is charged once, none is lost")
	}
	for range 50 {
		ask()
	}
	c.Nodes[3].Do("CLUSTER", "FAILOVER")
	until := time.Now().Add(20 * time.Second)
	for node := ""; node != c.Nodes[3].Addr; {
		require.True(t, time.Now().Before(until), "the replica is not asked")
		ask()
		states := do(e, Request{Op: OpInspect, Key: []byte(key)}).States
		require.Len(t, states, 1)
		node = states[0].Node
	}
	for range 50 {
		ask()
	}
}

// A slot that no node serves gets its policy; other slots are served.
func TestClusterWithoutASlot(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	keys := clusterKeys()
	for _, n := range c.Nodes {
		n.Do("CLUSTER", "DELSLOTS", slotOf(keys[0]))
	}
	e := openBackend(t, 20*time.Second, c.URL())
	ready(t, e, keys[1:]...)
	require.ErrorContains(t, do(e, charge(keys[0], 10)).Err, "no node serves the key's slot")
	require.NoError(t, do(e, charge(keys[1], 10)).Err)

	c.Nodes[1].Do("CLUSTER", "ADDSLOTS", slotOf(keys[0]))
	ready(t, e, keys[0])
	states := func() []State { return do(e, Request{Op: OpInspect, Key: []byte(keys[0])}).States }
	require.NoError(t, do(e, charge(keys[0], 10)).Err)
	require.Equal(t, c.Nodes[1].Addr, states()[0].Node)
}

// Close ends what Open began, whatever state the nodes are in.
func TestCloseLeavesNothing(t *testing.T) {
	well, hung, gone := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	before := runtime.NumGoroutine()
	for _, urls := range [][]string{
		{well.URL(), hung.URL(), gone.URL()},
		{"redis+sentinel://" + gone.Addr + "/main", "redis+sentinel://" + hung.Addr + "/other", well.URL()},
		{"redis+cluster://" + well.Addr + "," + hung.Addr},
	} {
		e, err := OpenRedis(RedisConfig{Backends: urls, Timeout: 50 * time.Millisecond, Policy: PolicyLocal})
		require.NoError(t, err)
		hung.Pause()
		gone.Kill()
		for range 3 {
			p := &Pipeline{}
			for _, key := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
				r := p.Add()
				*r = charge(key, 10)
				r.Fail = PolicyDefault
			}
			e.Do(p)
		}
		require.NoError(t, e.Close())
		hung.Resume()
		gone.Run()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+1 }, 10*time.Second, 10*time.Millisecond,
		"goroutines are left") // +1: Eventually's own
}
