package tests

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/faultnet"
)

// TestOnceIsChargedOnceWhateverIsLost sends requests with ONCE over networks that lose replies at random, between clients and
// proxies and between proxies and nodes. A client that gets no answer, or one by a FAIL policy, sends the request again, usually
// to another proxy. In the end each key has charged each of its ids once, and all answers for an id have what remained after that
// charge. SOAK_REQUESTS sets the number of ids, at most 100,000.
func TestOnceIsChargedOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	keys, ids := 10, int(soakUpTo(100_000, 6000)/10) // of each key
	nodes := startNodes(t, 2)
	args := []string{"--backend-timeout", "100"}
	var nets []*faultnet.Proxy
	for _, n := range nodes {
		net := faultnet.Start(t, n.Addr)
		nets = append(nets, net)
		args = append(args, "--backend", "redis://"+net.Addr)
	}
	proxies := startProxies(t, 3, args)
	var addrs []string
	for _, p := range proxies {
		waitServed(t, p.addr, keys)
		front := faultnet.Start(t, p.addr)
		front.Set(faultnet.Faults{Cut: 0.02})
		addrs = append(addrs, front.Addr)
	}
	for _, net := range nets {
		net.Set(faultnet.Faults{Cut: 0.01, Mute: 0.005})
	}

	const limit, depth, clients = 1_000_000, 16, 8
	left := make([][]int64, keys) // remaining in the answer, by key and id
	for k := range left {
		left[k] = make([]int64, ids)
	}
	var next, asked, lost, byFail atomic.Int64
	began := time.Now()
	var wg sync.WaitGroup
	for i := range clients {
		wg.Add(1)
		go func() { // ends when all ids are taken
			defer wg.Done()
			r := newRoamer(uint64(i), func() []string { return addrs })
			defer r.close()
			for {
				var open []int
				for range depth {
					if n := int(next.Add(1)) - 1; n < keys*ids {
						open = append(open, n)
					}
				}
				if len(open) == 0 {
					return
				}
				for len(open) > 0 {
					var pipeline [][]any
					for _, n := range open {
						pipeline = append(pipeline, words(fmt.Sprintf("RL.SLIDE once:%d %d 1h ONCE id%d", n%keys, limit, n/keys)))
					}
					asked.Add(int64(len(open)))
					replies, err := r.exchange(pipeline...)
					if err != nil {
						lost.Add(int64(len(open) - len(replies)))
					}
					var again []int
					for j, n := range open {
						if j >= len(replies) {
							again = append(again, n)
							continue
						}
						switch d, err := toDecision(replies[j]); {
						case err != nil:
							t.Errorf("%v", err)
							return
						case d.remaining < 0:
							byFail.Add(1)
							again = append(again, n)
						case d.allowed == 0 || left[n%keys][n/keys] > 0 && left[n%keys][n/keys] != d.remaining+1:
							t.Errorf("id%d of once:%d: %+v", n/keys, n%keys, d)
							return
						default:
							left[n%keys][n/keys] = d.remaining + 1
							if n%8 == 0 && r.rng.IntN(2) == 0 {
								again = append(again, n) // repeated without need: the answer must be the same
							}
						}
					}
					open = again
				}
			}
		}()
	}
	wg.Wait()
	t.Logf("%d ids in %v: asked %d times, %d replies lost on their way to clients, %d answers by FAIL policy",
		keys*ids, time.Since(began).Round(time.Millisecond), asked.Load(), lost.Load(), byFail.Load())
	require.Positive(t, lost.Load())
	require.Positive(t, byFail.Load())

	for _, net := range nets {
		net.Set(faultnet.Faults{})
	}
	waitServed(t, proxies[0].addr, keys)
	c := dial(t, proxies[0].addr)
	for k := range keys {
		used, held := c.usage(t, fmt.Sprintf("once:%d", k))
		require.Equal(t, int64(ids), used, "each id is charged once")
		require.Zero(t, held)
		seen := make(map[int64]bool)
		for id, n := range left[k] {
			require.True(t, n > limit-int64(ids) && n <= limit && !seen[n], "id%d of once:%d was told that %d remain", id, k, n-1)
			seen[n] = true
		}
	}
	for _, n := range nodes {
		requireExpiring(t, n)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}

// waitServed waits until a proxy's nodes decide every key, and no FAIL policy answers.
func waitServed(t *testing.T, addr string, keys int) {
	t.Helper()
	c := dial(t, addr)
	eventually(t, "the nodes to answer", func() bool {
		for k := range keys {
			if _, ok := c.do(t, "RL.INSPECT", fmt.Sprintf("once:%d", k)).([]any); !ok {
				return false
			}
		}
		return true
	})
}
