package redis

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, nil)
	t.Run("conformance", func(t *testing.T) {
		conformance.Run(t, func(t *testing.T, clock func() int64) engine.Engine {
			return withCalendar(clusterSubject(t, c, clock).(*Engine))
		}, 2000)
	})
	t.Run("conformance of holds", func(t *testing.T) {
		conformance.RunHolds(t, func(t *testing.T, clock func() int64) engine.Engine {
			return withCalendar(clusterSubject(t, c, clock).(*Engine))
		}, 2000)
	})
	t.Run("every master decides", func(t *testing.T) { clusterSpread(t, c) })
	t.Run("slots move under load", func(t *testing.T) { clusterMoves(t, c, openAlways(t, 20*time.Second, c.URL())) })
}

// In a cluster with TLS, nodes name each other's TLS ports: in the table of slots, and in redirects
// for a slot that has moved or is moving.
func TestClusterTLS(t *testing.T) {
	t.Parallel()
	authority, certificate, key := redistest.Certificates(t)
	c := redistest.StartCluster(t, 3, nil, redistest.TLS(authority, certificate, key))
	e := openOn(t, backend.Config{
		Backends: []string{c.URL()}, Timeout: 20 * time.Second,
		TLS: backend.NodeTLS{CACertFile: authority, CertFile: certificate, KeyFile: key},
	}, Config{AskAlways: true})
	clusterMoves(t, c, e)

	stranger := openAlways(t, 2*time.Second, c.URL())
	require.ErrorContains(t, conformance.Ask(stranger, charge("k", 10)).Err, "UNAVAILABLE", "the authority is not known to it")
}

// clusterSubject opens an engine on an empty cluster.
func clusterSubject(t *testing.T, c *redistest.Cluster, clock func() int64) engine.Engine {
	for _, n := range c.Nodes {
		n.Do("FLUSHALL")
	}
	e := openAlways(t, 20*time.Second, c.URL())
	e.nodeClock = clock
	ready(t, e, clusterKeys()...)
	return e
}

func clusterSpread(t *testing.T, c *redistest.Cluster) {
	e := openAlways(t, 20*time.Second, c.URL())
	ready(t, e, clusterKeys()...)
	p := &engine.Pipeline{}
	for i := range 3000 {
		*p.Add() = charge(fmt.Sprintf("spread%d", i), 10)
	}
	e.Do(p)
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
		require.EqualValues(t, 9, p.Results[i].Remaining)
	}
	for _, n := range c.Nodes {
		require.InDelta(t, 1000, n.Client.DBSize(t.Context()).Val(), 150)
	}
	for i, key := range clusterKeys() {
		require.NoError(t, conformance.Ask(e, charge(key, 10)).Err)
		states := conformance.Ask(e, conformance.Inspect(key)).States
		require.Len(t, states, 1)
		require.Equal(t, c.Nodes[i].Addr, states[0].Node)
	}
}

// clusterMoves moves a slot away and back, key by key, while its keys are charged. No request may
// fail, and each is charged once.
func clusterMoves(t *testing.T, c *redistest.Cluster, e *Engine) {
	const slot = 5000
	ready(t, e, clusterKeys()...)
	var keys []string
	for i := 0; len(keys) < 4; i++ {
		if key := fmt.Sprintf("move%d", i); slotOf(key) == slot {
			keys = append(keys, key)
		}
	}
	const most = limit.MaxLimit
	charged := make([]int64, len(keys)) // each written by one goroutine
	stop := make(chan struct{})
	var done sync.WaitGroup
	for k, key := range keys {
		done.Add(1)
		go func() { // until stop is closed
			defer done.Done()
			for {
				p := &engine.Pipeline{}
				for range 3 {
					*p.Add() = charge(key, most)
				}
				e.Do(p)
				for i := range p.Results {
					charged[k]++
					if p.Results[i].Err != nil || p.Results[i].Remaining != most-charged[k] {
						t.Errorf("%s: %+v, want %d remaining", key, p.Results[i], most-charged[k])
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
		states := conformance.Ask(e, conformance.Inspect(key)).States
		require.Len(t, states, 1)
		require.Equal(t, charged[k], states[0].Used)
		require.Contains(t, []string{c.Nodes[from].Addr, c.Nodes[from].Secure}, states[0].Node)
	}
}

// In a planned failover of a cluster's master no request fails: the old master redirects to the new
// one.
func TestClusterPlannedFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicated(t, 3)
	e := openAlways(t, 20*time.Second, c.URL())
	key := clusterKeys()[0]
	ready(t, e, key)
	left := int64(limit.MaxLimit)
	ask := func() {
		left--
		res := conformance.Ask(e, charge(key, limit.MaxLimit))
		require.NoError(t, res.Err)
		require.Equal(t, left, res.Remaining, "each is charged once, none is lost")
	}
	for range 50 {
		ask()
	}
	insist := failOver(c.Nodes[3])
	until := time.Now().Add(time.Minute)
	for node := ""; node != c.Nodes[3].Addr; {
		require.True(t, time.Now().Before(until), "the replica is not asked")
		insist()
		ask()
		res := conformance.Ask(e, conformance.Inspect(key))
		require.NoError(t, res.Err)
		require.Len(t, res.States, 1)
		node = res.States[0].Node
	}
	for range 50 {
		ask()
	}
}

// A master that is told to change places with its replica refuses scripts from then on. No request may
// fail for that, and each is charged once: if a call of many keys is refused, it is sent again key by
// key.
func TestClusterHandover(t *testing.T) {
	t.Parallel()
	c := redistest.StartReplicated(t, 3)
	e := openAlways(t, 20*time.Second, c.URL())
	ready(t, e, clusterKeys()...)
	home := slotOf(clusterKeys()[0]) * 3 / shard.Slots
	var keys []string
	for i := 0; len(keys) < 20; i++ {
		if key := fmt.Sprintf("hand%d", i); slotOf(key)*3/shard.Slots == home {
			keys = append(keys, key)
		}
	}
	const most = 1_000_000
	round := 0
	insist := failOver(c.Nodes[3])
	for changed := false; !changed; {
		insist()
		changed = strings.Contains(c.Nodes[0].Do("INFO", "replication"), "role:slave")
		for range 10 {
			round++
			p := &engine.Pipeline{}
			for _, key := range keys {
				*p.Add() = charge(key, most)
			}
			e.Do(p)
			for i := range p.Results {
				require.NoError(t, p.Results[i].Err)
				require.EqualValues(t, most-round, p.Results[i].Remaining, keys[i])
			}
		}
	}
	t.Logf("%d rounds", round)
}

// Requests of a pipeline about one key keep their order when they arrive at the node to which the key's slot has moved,
// although the former node redirects some of them at once and refuses others in a call about many keys.
func TestAPipelineKeepsItsOrderAfterASlotHasMoved(t *testing.T) {
	from, to := startFake(t), startFake(t)
	e := openOn(t, backend.Config{Backends: []string{"redis+cluster://" + from.addr}, Timeout: 5 * time.Second}, Config{AskAlways: true})
	ready(t, e, "k")
	var mu sync.Mutex
	var called []string // functions about the key on the new node
	to.set(func(args []string) reply {
		if args[0] == "fcall" && args[3] == stored("k", 0) {
			mu.Lock()
			called = append(called, args[1])
			mu.Unlock()
		}
		return to.well(args)
	})
	from.set(func(args []string) reply {
		switch {
		case args[0] != "fcall":
			return from.well(args)
		case args[2] != "0":
			return reply{text: "-MOVED 1 " + to.addr + "\r\n"}
		}
		const why = "ERR Script attempted to access a non local key in a cluster node"
		answer := "\x01" + string(bytesOf(2, int64(len(why)))) + why
		return reply{text: bulk(string(bytesOf(6, time.Now().UnixMilli())) + strings.Repeat(answer, 2))}
	})
	for range 20 {
		called = nil
		p := &engine.Pipeline{}
		*p.Add() = conformance.Reset("another key")
		*p.Add() = conformance.Reset("k") // these two share a call
		for range 3 {
			*p.Add() = conformance.Inspect("k")
			*p.Add() = conformance.Reset("k")
		}
		e.Do(p)
		for i := range p.Results {
			require.NoError(t, p.Results[i].Err)
		}
		want := []string{lua.Reset.Name}
		for range 3 {
			want = append(want, lua.Inspect.Name, lua.Reset.Name)
		}
		require.Equal(t, want, called)
	}
}
