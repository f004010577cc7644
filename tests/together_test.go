package tests

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// load is what many clients of several proxies do at once.
type load struct {
	proxies  []*proxy
	clients  int // for each proxy
	depth    int // most commands in a pipeline
	keys     int
	duration time.Duration
	command  func(key int) []any // without COST
	limit    int64
	window   time.Duration
	maxCost  int64
}

// run applies the load and returns the history of each key.
func (l *load) run(t *testing.T) []history {
	t.Helper()
	histories := make([]history, l.keys)
	for i := range histories {
		histories[i] = history{limit: l.limit, window: l.window}
	}
	var mu sync.Mutex // guards histories and failure
	var failure error
	var wg sync.WaitGroup
	until := time.Now().Add(l.duration)
	for i, p := range l.proxies {
		for j := range l.clients {
			c := dial(t, p.addr)
			wg.Add(1)
			go func() { // until the load's duration is over
				defer wg.Done()
				answers, err := l.client(c, rand.New(rand.NewPCG(uint64(i), uint64(j))), until)
				mu.Lock()
				defer mu.Unlock()
				for key, a := range answers {
					histories[key].answers = append(histories[key].answers, a...)
				}
				if err != nil && failure == nil {
					failure = err
				}
			}()
		}
	}
	wg.Wait()
	require.NoError(t, failure)
	return histories
}

// client sends pipelines one after the other and returns its answers by key.
func (l *load) client(c *conn, rng *rand.Rand, until time.Time) (map[int][]answer, error) {
	answers := make(map[int][]answer)
	for time.Now().Before(until) {
		pipeline := make([][]any, 1+rng.IntN(l.depth))
		keys, costs := make([]int, len(pipeline)), make([]int64, len(pipeline))
		for i := range pipeline {
			keys[i], costs[i] = rng.IntN(l.keys), 1+rng.Int64N(l.maxCost)
			pipeline[i] = append(l.command(keys[i]), "COST", costs[i])
		}
		sent := time.Now()
		replies, err := c.Exchange(pipeline...)
		if err != nil {
			return answers, err
		}
		read := time.Now()
		for i, reply := range replies {
			d, err := toDecision(reply)
			if err != nil {
				return answers, err
			}
			answers[keys[i]] = append(answers[keys[i]], answer{sent, read, costs[i], d})
		}
	}
	return answers, nil
}

// startProxies starts several on the same nodes.
func startProxies(t *testing.T, count int, args []string) []*proxy {
	t.Helper()
	all := make([]*proxy, count)
	for i := range all {
		all[i] = startProxy(t, args...)
	}
	return all
}

// TestManyProxies asks three proxies on three nodes about the same keys, and holds
// the limit from what clients saw: never more in any trailing window, and no
// denial while there was room.
func TestManyProxies(t *testing.T) {
	nodes := startNodes(t, 3)
	proxies := startProxies(t, 3, backends(nodes...))
	for _, c := range []struct {
		name    string
		options []any
		exact   bool // what counts is what was admitted within the window, no more
	}{
		{"RL.SLIDE", nil, true},
		{"RL.COUNTER", []any{"STRICT"}, false},
		{"RL.COUNTER", []any{"BUCKETS", 20, "STRICT"}, false},
	} {
		for keys, limit := range map[int]int64{1: 300, 50: 40} { // both well below the demand
			name := fmt.Sprintf("%s %v, %d keys", c.name, c.options, keys)
			t.Run(name, func(t *testing.T) {
				l := load{
					proxies: proxies, clients: 8, depth: 16, keys: keys, duration: 4 * time.Second,
					limit: limit, window: time.Second, maxCost: 3,
					command: func(key int) []any {
						return append([]any{c.name, fmt.Sprintf("%s/%d", name, key), limit, "1s"}, c.options...)
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
				require.Positive(t, denied)
			})
		}
	}
	for _, n := range nodes {
		requireMortal(t, n)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}

// TestDisturbed flushes scripts and kills the proxies' connections all the while.
// No client may see an error; answers lost with a connection are the policy's, and
// what they cost was charged once at most.
func TestDisturbed(t *testing.T) {
	nodes := startNodes(t, 3)
	proxies := startProxies(t, 3, backends(nodes...))
	const limit = 100_000_000
	l := load{
		proxies: proxies, clients: 8, depth: 16, keys: 20, duration: 5 * time.Second,
		limit: limit, window: 24 * time.Hour, maxCost: 1,
		command: func(key int) []any { return []any{"RL.SLIDE", fmt.Sprint("d", key), limit, "1d"} },
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	kills := make([]int64, len(nodes))
	for i, n := range nodes {
		wg.Add(1)
		go func() { // until cancel
			defer wg.Done()
			for tick := time.NewTicker(200 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				// The connection that asks is spared: SKIPME is the default.
				killed, err := n.ClientKillByFilter(context.Background(), "TYPE", "normal").Result()
				if err == nil {
					kills[i] += killed
					err = n.ScriptFlush(context.Background()).Err()
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
		require.Empty(t, h.denied(), "denied below the limit")
		admitted, lost := int64(len(h.admitted())), int64(len(h.lost()))
		var d decision
		eventually(t, "the node to be up again", func() bool {
			d = c.decide(t, fmt.Sprintf("RL.SLIDE d%d %d 1d COST 0", key, limit))
			return d.remaining >= 0
		})
		used := limit - d.remaining
		require.GreaterOrEqual(t, used, admitted, "an admission was not charged")
		require.LessOrEqual(t, used, admitted+lost, "something was charged twice")
		known, unknown = known+admitted, unknown+lost
	}
	t.Logf("%d admitted, %d answered by the policy, connections killed per node: %v", known, unknown, kills)
	require.Greater(t, known, unknown, "lost connections cost too many answers")
	for _, n := range kills {
		require.Positive(t, n)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}
