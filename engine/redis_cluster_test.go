package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// openBackend opens an engine that asks nodes always, and closes it with the test.
func openBackend(t testing.TB, timeout time.Duration, urls ...string) *Redis {
	t.Helper()
	e, err := OpenRedis(RedisConfig{Backends: urls, Timeout: timeout, AskAlways: true})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// charge is a request that answers UNAVAILABLE when its node cannot.
func charge(key string, limit int64) Request {
	return Request{Op: OpSlide, Key: []byte(key), N: 1, Windows: [MaxWindows]Window{{limit, 600_000}}, Cost: 1, Buckets: 1, Fail: PolicyError}
}

// do asks one request.
func do(e Engine, r Request) Result {
	p := Pipeline{Requests: []Request{r}}
	e.Do(&p)
	return p.Results[0]
}

// ready waits until the engine answers for every key.
func ready(t testing.TB, e Engine, keys ...string) {
	t.Helper()
	for _, key := range keys {
		require.Eventually(t, func() bool {
			return do(e, Request{Op: OpInspect, Key: []byte(key)}).Err == nil
		}, 20*time.Second, 10*time.Millisecond, "no answer about %s", key)
	}
}

func slotOf(key string) int { return shard.Slot(shard.AppendStoredKey(nil, []byte(key), 0)) }

// clusterKeys returns a key for each of three masters that share the slots evenly.
func clusterKeys() []string {
	const n = 3
	keys := make([]string, n)
	for i, left := 0, n; left > 0; i++ {
		key := fmt.Sprintf("key%d", i)
		if at := slotOf(key) * n / shard.Slots; keys[at] == "" {
			keys[at] = key
			left--
		}
	}
	return keys
}

func TestCluster(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	t.Run("conformance", func(t *testing.T) {
		transcripts(t, func(t *testing.T, clock func() int64) Engine {
			return clusterSubject(t, c, clock)
		}, "testdata/conformance/*.txt")
		randomRun(t, func(t *testing.T, clock func() int64) Engine {
			return clusterSubject(t, c, clock)
		}, 20_000)
	})
	t.Run("every master decides", func(t *testing.T) { clusterSpread(t, c) })
	t.Run("slots move under load", func(t *testing.T) { clusterMoves(t, c, openBackend(t, 20*time.Second, c.URL())) })
}

// In a cluster with TLS nodes name each other's TLS ports: in the table of slots, and
// where they send who asks about a slot that has moved, or is about to.
func TestClusterTLS(t *testing.T) {
	authority, certificate, key := certificates(t)
	c := redistest.StartCluster(t, 3, nil, redistest.TLS(authority, certificate, key))
	e, err := OpenRedis(RedisConfig{
		Backends: []string{c.URL()}, Timeout: 20 * time.Second, AskAlways: true,
		TLS: BackendTLS{CACertFile: authority, CertFile: certificate, KeyFile: key},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	clusterMoves(t, c, e)

	stranger := openBackend(t, 2*time.Second, c.URL())
	require.ErrorContains(t, do(stranger, charge("k", 10)).Err, "UNAVAILABLE", "the authority is not known to it")
}

// clusterSubject opens an engine on an empty cluster.
func clusterSubject(t *testing.T, c *redistest.Cluster, clock func() int64) Engine {
	for _, n := range c.Nodes {
		n.Do("FLUSHALL")
	}
	e, err := OpenRedis(RedisConfig{Backends: []string{c.URL()}, Timeout: 20 * time.Second, AskAlways: true})
	require.NoError(t, err)
	e.clock = clock
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ready(t, e, clusterKeys()...)
	return e
}

func clusterSpread(t *testing.T, c *redistest.Cluster) {
	e := openBackend(t, 20*time.Second, c.URL())
	ready(t, e, clusterKeys()...)
	p := &Pipeline{}
	for i := range 3000 {
		*p.Add() = charge(fmt.Sprintf("spread%d", i), 10)
	}
	e.Do(p)
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
		require.EqualValues(t, 9, p.Results[i].Remaining)
	}
	for _, n := range c.Nodes {
		require.InDelta(t, 1000, n.Client.DBSize(context.Background()).Val(), 150)
	}
	for i, key := range clusterKeys() {
		require.NoError(t, do(e, charge(key, 10)).Err)
		states := do(e, Request{Op: OpInspect, Key: []byte(key)}).States
		require.Len(t, states, 1)
		require.Equal(t, c.Nodes[i].Addr, states[0].Node)
	}
}

// clusterMoves moves a slot away and back, key by key, while its keys are charged.
// No request may fail, and each be charged once.
func clusterMoves(t *testing.T, c *redistest.Cluster, e *Redis) {
	const slot = 5000
	ready(t, e, clusterKeys()...)
	var keys []string
	for i := 0; len(keys) < 4; i++ {
		if key := fmt.Sprintf("move%d", i); slotOf(key) == slot {
			keys = append(keys, key)
		}
	}
	const limit = MaxLimit
	charged := make([]int64, len(keys)) // each written by one goroutine
	stop := make(chan struct{})
	var done sync.WaitGroup
	for k, key := range keys {
		done.Add(1)
		go func() { // until stop is closed
			defer done.Done()
			for {
				p := &Pipeline{}
				for range 3 {
					*p.Add() = charge(key, limit)
				}
				e.Do(p)
				for i := range p.Results {
					charged[k]++
					if p.Results[i].Err != nil || p.Results[i].Remaining != limit-charged[k] {
						t.Errorf("%s: %+v, want %d remaining", key, p.Results[i], limit-charged[k])
						return
					}
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	from := c.Master(slot)
	to := (from + 1) % len(c.Nodes)
	for range 5 {
		c.Move(slot, from, to, func() { ready(t, e, keys...) })
		from, to = to, from
	}
	close(stop)
	done.Wait()
	for k, key := range keys {
		states := do(e, Request{Op: OpInspect, Key: []byte(key)}).States
		require.Len(t, states, 1)
		require.Equal(t, charged[k], states[0].Used)
		require.Contains(t, []string{c.Nodes[from].Addr, c.Nodes[from].Secure}, states[0].Node)
	}
}

// A master that hangs holds up its own keys only, and its replica takes over within
// seconds, without a word from us.
func TestClusterFailover(t *testing.T) {
	const timeout = 500 * time.Millisecond
	c := redistest.StartReplicated(t, 3)
	e := openBackend(t, timeout, c.URL())
	keys := clusterKeys()
	ready(t, e, keys...)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	stopped := time.Now()
	var worst time.Duration
	var others error
	require.Eventually(t, func() bool {
		from := time.Now()
		for _, key := range keys[1:] {
			others = errors.Join(others, do(e, charge(key, 1000)).Err)
		}
		res := do(e, charge(keys[0], 1000))
		worst = max(worst, time.Since(from))
		return res.Err == nil
	}, 20*time.Second, 10*time.Millisecond, "the replica took over")
	require.NoError(t, others)
	require.Less(t, worst, timeout+lateness)
	t.Logf("taken over after %s, slowest round of three %s", time.Since(stopped).Round(time.Millisecond), worst)
	states := do(e, Request{Op: OpInspect, Key: []byte(keys[0])}).States
	require.Len(t, states, 1)
	require.Equal(t, c.Nodes[3].Addr, states[0].Node)
}

// A master that is told to change places with its replica refuses scripts from then on.
// No request may fail for it, and each be charged once: what a call of many keys was
// refused is asked again, key by key.
func TestClusterHandover(t *testing.T) {
	c := redistest.StartReplicated(t, 3)
	e := openBackend(t, 20*time.Second, c.URL())
	ready(t, e, clusterKeys()...)
	home := slotOf(clusterKeys()[0]) * 3 / shard.Slots
	var keys []string
	for i := 0; len(keys) < 20; i++ {
		if key := fmt.Sprintf("hand%d", i); slotOf(key)*3/shard.Slots == home {
			keys = append(keys, key)
		}
	}
	const limit = 1_000_000
	round := 0
	c.Nodes[3].Do("CLUSTER", "FAILOVER")
	for changed := false; !changed; {
		changed = strings.Contains(c.Nodes[0].Do("INFO", "replication"), "role:slave")
		for range 10 {
			round++
			p := &Pipeline{}
			for _, key := range keys {
				*p.Add() = charge(key, limit)
			}
			e.Do(p)
			for i := range p.Results {
				require.NoError(t, p.Results[i].Err)
				require.EqualValues(t, limit-round, p.Results[i].Remaining, keys[i])
			}
		}
	}
	t.Logf("%d rounds", round)
}
