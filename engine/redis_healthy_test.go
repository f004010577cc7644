package engine

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Requests to healthy nodes do not slow down when one of three stops: neither at
// first, when requests to it wait, nor later, when it is known to be down.
func TestHealthyNodesStayFast(t *testing.T) {
	var urls []string
	var nodes []*redistest.Server
	for range 3 {
		s := redistest.Start(t)
		nodes, urls = append(nodes, s), append(urls, s.URL())
	}
	e := openBackend(t, time.Second, urls...)
	keys := make([][]string, len(nodes))
	for i := range 300 {
		key := fmt.Sprintf("key%d", i)
		at := e.topology.Load().locate([]byte(key), 0)
		keys[at] = append(keys[at], key)
	}
	for i := range keys {
		ready(t, e, keys[i]...)
	}
	well := p99OfHealthy(t, e, keys)
	nodes[2].Pause()
	defer nodes[2].Resume()
	ill := p99OfHealthy(t, e, keys)
	t.Logf("p99 of requests to two nodes: %s, with the third stopped %s", well, ill)
	// A busy machine runs the tests; who waited for the stopped node waited for 1 s.
	require.Less(t, ill, 2*well+300*time.Millisecond)
}

// p99OfHealthy loads all three nodes alike for a second and a half, and returns the
// 99th percentile of the answers of the first two.
func p99OfHealthy(t *testing.T, e *Redis, keys [][]string) time.Duration {
	const clients, pace = 4, 2 * time.Millisecond // of each node
	var mu sync.Mutex
	var all []time.Duration
	var done sync.WaitGroup
	until := time.Now().Add(1500 * time.Millisecond)
	for at := range keys {
		for c := range clients {
			done.Add(1)
			go func() { // until the time is over
				defer done.Done()
				tick := time.NewTicker(pace)
				defer tick.Stop()
				var took []time.Duration
				for i := c; time.Now().Before(until); i++ {
					<-tick.C
					from := time.Now()
					res := do(e, charge(keys[at][i%len(keys[at])], 1_000_000))
					took = append(took, time.Since(from))
					if res.Err != nil && at < 2 {
						t.Error(res.Err)
					}
				}
				if at < 2 {
					mu.Lock()
					all = append(all, took...)
					mu.Unlock()
				}
			}()
		}
	}
	done.Wait()
	slices.Sort(all)
	require.NotEmpty(t, all)
	return all[len(all)*99/100]
}
