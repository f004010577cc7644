package tests

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestManyProxiesHoldOneLimit sends requests for the same keys through three proxies in front of three
// nodes. By the answers that clients got, no trailing window admitted more than the limit, and no
// request was denied while there was room. make soak runs each load for 4 seconds.
// The load uses the whole machine, so the test does not run in parallel with others.
func TestManyProxiesHoldOneLimit(t *testing.T) {
	nodes := startNodes(t, 3)
	proxies := startProxies(t, 3, backends(nodes...))
	for _, c := range []struct {
		name    string
		options []any
		exact   bool // whether usage is exactly what was admitted within the window
	}{
		{"RL.SLIDE", nil, true},
		{"RL.COUNTER", []any{"STRICT"}, false},
		{"RL.COUNTER", []any{"BUCKETS", 20, "STRICT"}, false},
	} {
		for keys, limit := range map[int]int64{1: 300, 50: 40} { // both limits are well below the demand
			name := fmt.Sprintf("%s %v, %d keys", c.name, c.options, keys)
			t.Run(name, func(t *testing.T) {
				l := load{
					proxies: proxies, clients: 8, depth: 16, keys: keys, duration: soakOr(4*time.Second, 600*time.Millisecond),
					limit: limit, window: 400 * time.Millisecond, maxCost: 3,
					command: func(key int) []any {
						return append([]any{c.name, fmt.Sprintf("%s/%d", name, key), limit, "400ms"}, c.options...)
					},
				}
				var admitted, denied int
				for _, h := range l.run(t) {
					require.NoError(t, h.checkLimit())
					if c.exact {
						require.NoError(t, h.checkDenials())
					}
					require.Empty(t, h.lost())
					admitted += len(h.admitted())
					denied += len(h.denied())
				}
				t.Logf("%d admitted, %d denied", admitted, denied)
				require.Positive(t, admitted)
				if reachesLimits {
					require.Positive(t, denied)
				}
			})
		}
	}
	for _, n := range nodes {
		requireExpiring(t, n)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}

// TestBrokenConnectionsChargeNothingTwice flushes the nodes' functions and kills the
// proxies' connections while clients send requests. No client sees an error. The FAIL policy
// answers if a reply was lost with its connection, and each such request was charged at
// most once. make soak runs the load for 5 seconds. It does not run in
// parallel with others either. No key is split, and none has advances: no two admissions by one home have the same remaining.
func TestBrokenConnectionsChargeNothingTwice(t *testing.T) {
	nodes := startNodes(t, 3)
	proxies := startProxies(t, 3, append(backends(nodes...), "--hot-key-threshold", "0", "--advance", "no"))
	const limit = 100_000_000
	l := load{
		proxies: proxies, clients: 8, depth: 16, keys: 20, duration: soakOr(5*time.Second, 1500*time.Millisecond),
		limit: limit, window: 24 * time.Hour, maxCost: 1,
		command: func(key int) []any { return []any{"RL.SLIDE", fmt.Sprint("d", key), limit, "1d"} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	kills := make([]int64, len(nodes))
	for i, n := range nodes {
		wg.Add(1)
		go func() { // ends with the context
			defer wg.Done()
			for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				// SKIPME is the default: the connection that sends this survives.
				killed, err := n.ClientKillByFilter(context.Background(), "TYPE", "normal").Result()
				if err == nil {
					kills[i] += killed
					err = n.FunctionFlush(context.Background()).Err()
				}
				if err != nil {
					t.Errorf("disturbing a node: %v", err)
					return
				}
			}
		}()
	}
	histories := l.run(t)
	cancel()
	wg.Wait()

	c := dial(t, proxies[0].addr)
	var known, unknown int64
	for key, h := range histories {
		require.NoError(t, h.once())
		require.Empty(t, h.denied(), "a request below the limit was denied")
		admitted, lost := int64(len(h.admitted())), int64(len(h.lost()))
		var d decision
		eventually(t, "the node to be up again", func() bool {
			d = c.decide(t, fmt.Sprintf("RL.SLIDE d%d %d 1d COST 0", key, limit))
			return d.remaining >= 0
		})
		used := limit - d.remaining
		require.GreaterOrEqual(t, used, admitted, "an admission was not charged")
		require.LessOrEqual(t, used, admitted+lost, "a request was charged twice")
		known, unknown = known+admitted, unknown+lost
	}
	t.Logf("%d admitted, %d answered by FAIL policy, connections killed per node: %v", known, unknown, kills)
	require.Greater(t, known, unknown, "most requests were answered by FAIL policy")
	for _, n := range kills {
		require.Positive(t, n)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}
