package redis

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// badNet is a network with many faults: replies are cut off, late, or lost while the connection stays
// open.
var badNet = faultnet.Faults{Cut: 0.02, Mute: 0.02, Delay: 60 * time.Millisecond, Late: 0.02}

// sent is one request of a run, and its outcome.
type sent struct {
	key      string
	limit    int64
	answered bool // by the node: admitted
}

// once sends requests through a bad network, each with its own key and limit, while mishap breaks
// connections now and then. A request that the node answered must have been charged once, and any
// other at most once. Every answer must belong to its request: limit - 1 units remain.
func once(t *testing.T, proxies []*faultnet.Proxy, mishap func(), urls ...string) {
	e := openAlways(t, 40*time.Millisecond, urls...)
	ready(t, e, clusterKeys()...)
	const workers, rounds, perRound = 8, 30, 24
	for _, p := range proxies {
		p.Set(badNet)
	}
	all := make([][]sent, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Add(1)
		go func() { // for its rounds
			defer done.Done()
			p := &engine.Pipeline{}
			for round := range rounds {
				for !allUp(e) {
					time.Sleep(time.Millisecond)
				}
				p.Reset()
				first := len(all[w])
				for i := range perRound {
					s := sent{key: fmt.Sprintf("once:%d:%d:%d", w, round, i), limit: 1000 + rand.Int64N(1_000_000_000)}
					all[w] = append(all[w], s)
					*p.Add() = charge(s.key, s.limit)
				}
				e.Do(p)
				for i, res := range p.Results {
					s := &all[w][first+i]
					s.answered = res.Err == nil
					if s.answered && (!res.Allowed || res.Limit != s.limit || res.Remaining != s.limit-1) {
						t.Errorf("%s with limit %d was answered %+v", s.key, s.limit, res.Decision)
					}
				}
			}
		}()
	}
	finished := make(chan struct{})
	go func() { // until the workers are done
		done.Wait()
		close(finished)
	}()
	for mishaps := true; mishaps; {
		select {
		case <-finished:
			mishaps = false
		case <-time.After(30 * time.Millisecond):
			mishap()
		}
	}
	for _, p := range proxies {
		p.Set(faultnet.Faults{})
	}
	truth := openAlways(t, 5*time.Second, urls...)
	ready(t, truth, clusterKeys()...)
	answered, unanswered := 0, 0
	for _, s := range slices.Concat(all...) {
		res := conformance.Ask(truth, conformance.Inspect(s.key))
		require.NoError(t, res.Err)
		used := int64(0)
		for _, state := range res.States {
			used += state.Used
		}
		if s.answered {
			answered++
			require.EqualValues(t, 1, used, "%s: answered, so charged once", s.key)
			continue
		}
		if used > 0 {
			unanswered++
		}
		require.LessOrEqual(t, used, int64(1), "%s: charged more than once", s.key)
	}
	t.Logf("%d requests: %d answered by nodes, %d charged without an answer", workers*rounds*perRound, answered, unanswered)
	require.Greater(t, answered, workers*rounds*perRound/20, "the run shows something")
	require.Positive(t, unanswered, "the network lost answers")
}

func TestOnceOnNodes(t *testing.T) {
	t.Parallel()
	var urls []string
	var proxies []*faultnet.Proxy
	nodes, _ := startServers(t, 2)
	for _, s := range nodes {
		p := faultnet.Start(t, s.Addr)
		proxies, urls = append(proxies, p), append(urls, "redis://"+p.Addr)
	}
	once(t, proxies, func() {
		i := rand.IntN(len(nodes))
		switch rand.IntN(3) {
		case 0:
			proxies[i].Cut()
		case 1:
			nodes[i].Do("FUNCTION", "FLUSH")
		case 2:
			nodes[i].Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}, urls...)
}

func TestOnceBehindSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	p := faultnet.Start(t, s.Addr)
	watch := redistest.StartSentinel(t, p.Addr)
	once(t, []*faultnet.Proxy{p}, p.Cut, "redis+sentinel://"+watch.Addr+"/"+redistest.SentinelName)
}

func TestOnceOnCluster(t *testing.T) {
	t.Parallel()
	proxies := map[string]*faultnet.Proxy{}
	var list []*faultnet.Proxy
	c := redistest.StartCluster(t, 3, func(addr string) int {
		proxies[addr] = faultnet.Start(t, addr)
		list = append(list, proxies[addr])
		return proxies[addr].Port
	})
	slot := 0
	once(t, list, func() {
		from := c.Master(slot)
		c.Move(slot, from, (from+1)%3, func() {})
		slot = (slot + 397) % shard.Slots
		list[rand.IntN(len(list))].Cut()
	}, "redis+cluster://"+list[0].Addr)
}

// A shared call whose function the node does not know is built again for the same requests, even if another reply of
// the batch shows that the node has begun or ceased to refuse admissions. A request that was left out would get an
// empty answer, and one that was added would be sent twice.
func TestACallIsBuiltAgainForTheSameRequests(t *testing.T) {
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	q := e.queues.OpenAll().Queues[0]
	refused := backend.RefusedCall{Key: "k"}
	for name, c := range map[string]struct {
		before, after *backend.RefusedCall
		built         []int // number of requests of each call
	}{
		"begins": {nil, &refused, []int{3}},
		"ceases": {&refused, nil, []int{1, 1, 1}},
	} {
		requests := []engine.Request{reserve("k", "a", 10, 1), settle("k", "b", 1), reserve("k", "c", 10, 1)}
		b := &batch{parts: q.parts, q: q}
		for i := range requests {
			b.items = append(b.items, item{task: withID{}, req: &requests[i], res: new(engine.Result)})
		}
		q.Refused.Store(c.before)
		b.build(t.Context())
		for _, cmd := range b.cmds {
			cmd.SetErr(backend.Reply("ERR Function not found"))
		}
		q.Refused.Store(c.after)
		b.rebuild(t.Context())
		var built []int
		for _, cmd := range b.cmds[1:] { // after the one that loads the library
			built = append(built, cmd.(*ownCommand).items)
		}
		require.Equal(t, c.built, built, name)
	}
}
