package tests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// followed is a node with a replica, and the networks between clients and the node and between the two.
type followed struct {
	node, replica   *redistest.Server
	network, behind *faultnet.Proxy
}

func startFollowed(t testing.TB) *followed {
	t.Helper()
	f := &followed{node: redistest.Start(t), replica: redistest.Start(t)}
	f.network, f.behind = faultnet.Start(t, f.node.Addr), faultnet.Start(t, f.node.Addr)
	f.node.Do("CONFIG", "SET", "repl-diskless-sync-delay", 0)
	f.replica.Do("REPLICAOF", "127.0.0.1", f.behind.Port)
	proxytest.Eventually(t, "the replica", func() bool { return f.node.Do("WAIT", 1, 1000) == "1" })
	return f
}

// confirmed returns the arguments of a proxy that has its decisions confirmed by a replica of each node.
func confirmed(ms string, nodes ...*followed) []string {
	args := []string{"--backend-timeout", "10000", "--fail-policy", "error", "--wait-replicas", "1", ms}
	for _, f := range nodes {
		args = append(args, "--backend", "redis://"+f.network.Addr)
	}
	return args
}

// While the replica gets nothing, whatever charges or changes something is answered by its FAIL policy, and denials as ever.
func TestReplicasMustHaveADecision(t *testing.T) {
	t.Parallel()
	f := startFollowed(t)
	p := startProxy(t, append(confirmed("5000", f), "--advance", "no")...)
	c := dial(t, p.addr)
	requests := []string{
		"RL.SLIDE a 10 1h", "RL.COUNTER b 10 1h", "RL.FIXED c 10 1h", "RL.BUCKET d 10 10 1h", "CL.THROTTLE e 10 10 3600",
		"RL.SLIDE f 10 1h ONCE x", "RL.RESERVE g 10 1h COST 2 ID x", "RL.ACQUIRE h 10 ID x", "RL.SLIDE i 10 1h AND j 10 1h",
	}
	for _, line := range append(requests, "RL.SLIDE used 1 1h", "RL.RESERVE lent 10 1h COST 2 ID x", "RL.ACQUIRE held 10 ID x") {
		require.NotContains(t, fmt.Sprint(c.do(t, words(line)...)), "UNAVAILABLE")
	}
	require.Zero(t, c.info(t, "not_replicated"))
	require.EqualValues(t, "OK", c.do(t, "CONFIG", "SET", "wait-replicas", "1 50"))
	f.behind.Set(faultnet.Faults{SwallowReplies: true})
	for _, line := range append(requests, "RL.SETTLE lent x 1", "RL.RENEW held x", "RL.RELEASE held x", "RL.RESET a") {
		reply := c.do(t, words(line)...)
		require.Equal(t, errReply("UNAVAILABLE "+f.network.Addr+": 0 of 1 replicas had the write after 50 ms"), reply, line)
	}
	require.EqualValues(t, len(requests)+4, c.info(t, "not_replicated"))
	require.Equal(t, [3]int64{0, 1, 0}, shortened(t, c.do(t, words("RL.SLIDE used 1 1h")...)), "a denial")
	require.Equal(t, [3]int64{1, 10, 10}, shortened(t, c.do(t, words("RL.SLIDE free 10 1h COST 0")...)), "a question")
	for policy, answer := range map[string][3]int64{"OPEN": {1, 10, -1}, "CLOSED": {0, 10, -1}, "LOCAL": {1, 10, -1}} {
		require.Equal(t, answer, shortened(t, c.do(t, words("RL.SLIDE by:"+policy+" 10 1h FAIL "+policy)...)), policy)
	}
	n := fields(t, c.do(t, "RL.NODES").([]any)[0])
	require.Equal(t, "refuses", n["state"])
	require.Contains(t, n["why"], "0 of 1 replicas had the write after 50 ms")
	require.Contains(t, p.Output.String(), "0 of 1 replicas had the write after 50 ms")

	f.behind.Set(faultnet.Faults{})
	f.behind.Cut()
	eventually(t, "the node to take writes again, without requests", func() bool {
		return fields(t, c.do(t, "RL.NODES").([]any)[0])["state"] == "up"
	})
	require.EqualValues(t, "OK", c.do(t, "CONFIG", "SET", "wait-replicas", "1 5000"))
	require.EqualValues(t, 9, c.decide(t, "RL.SLIDE a 10 1h").remaining, "the reset was done")
	require.EqualValues(t, 7, c.decide(t, "RL.COUNTER b 10 1h").remaining, "both requests were charged")
}

// shortened returns the first three fields of a decision.
func shortened(t *testing.T, reply any) [3]int64 {
	t.Helper()
	d, err := toDecision(reply)
	require.NoError(t, err)
	return [3]int64{d.allowed, d.limit, d.remaining}
}

// A replica that confirms what counts, and is cut off at some moment, takes over. What was admitted before counts there,
// also what proxies had admitted from advances: a failover loses nothing, and no limit is exceeded. With a list, it is
// the failover of one of its nodes.
func TestAFailoverLosesNothingThatReplicasHave(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, advance string
		nodes         int
	}{{"at home", "no", 1}, {"with advances", "yes", 1}, {"in a list", "yes", 3}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			nodes := make([]*followed, c.nodes)
			for i := range nodes {
				nodes[i] = startFollowed(t)
			}
			args := append(confirmed("100", nodes...), "--advance", c.advance, "--advance-time", "2000")
			a := askKeys(t, startProxies(t, 2, args)...)
			a.more(300)
			if c.advance == "yes" {
				eventually(t, "advances", func() bool { return dial(t, a.proxies[0].addr).info(t, "advance_decisions") > 100 })
			}
			f := homeOf(t, "hot", nodes)
			f.behind.Set(faultnet.Faults{SwallowReplies: true})
			a.more(100)
			f.node.Kill()
			f.replica.Do("REPLICAOF", "NO", "ONE")
			f.network.Move(f.replica.Addr)
			for _, p := range a.proxies { // no replica follows the new master yet
				require.EqualValues(t, "OK", dial(t, p.addr).do(t, "CONFIG", "SET", "wait-replicas", "0"))
			}
			a.more(300)
			a.check()
		})
	}
}

// homeOf returns the node that has a key.
func homeOf(t *testing.T, key string, nodes []*followed) *followed {
	t.Helper()
	i := slices.IndexFunc(nodes, func(f *followed) bool { return f.node.Do("EXISTS", "rl:{"+key+"}") == "1" })
	require.GreaterOrEqual(t, i, 0, key)
	return nodes[i]
}

// A replica of one node of a list is behind, and then away. Requests about the keys of that node are refused, alone and
// together with keys of other nodes, of which nothing is charged then. Those about all other keys are answered.
func TestOnlyTheKeysOfANodeWhoseReplicasLackThemAreRefused(t *testing.T) {
	t.Parallel()
	const keys = 40
	nodes := []*followed{startFollowed(t), startFollowed(t), startFollowed(t)}
	p := startProxy(t, append(confirmed("2000", nodes...), "--advance", "no")...)
	c := dial(t, p.addr)
	slide := func(i int) string { return fmt.Sprintf("RL.SLIDE k:%d 100 1h", i) }
	home, other := -1, -1 // keys of the node whose replica fails, and of another one
	f, of := nodes[1], make([]*followed, keys)
	var all [][]any
	for i := range keys {
		all = append(all, words(slide(i)))
		require.EqualValues(t, 99, c.decide(t, slide(i)).remaining)
		if of[i] = homeOf(t, fmt.Sprint("k:", i), nodes); of[i] == f {
			home = i
		} else {
			other = i
		}
	}
	state := func(f *followed) string {
		for _, n := range c.do(t, "RL.NODES").([]any) {
			if n := fields(t, n); n["node"] == f.network.Addr {
				return fmt.Sprint(n["state"])
			}
		}
		return ""
	}
	refused := errReply("UNAVAILABLE " + f.network.Addr + ": 0 of 1 replicas had the write after 2000 ms")
	check := func(lacks, both string) {
		left := c.decide(t, slide(other)+" COST 0").remaining
		require.Equal(t, refused, c.do(t, words(both)...), lacks)
		eventually(t, "nothing to be held of the other key", func() bool {
			return c.decide(t, slide(other)+" COST 0").remaining == left
		})
		for i, reply := range c.pipeline(t, all...) {
			if of[i] == f {
				require.Equal(t, refused, reply, lacks)
			} else {
				require.EqualValues(t, 1, shortened(t, reply)[0], lacks)
			}
		}
		for _, n := range nodes {
			require.Equal(t, map[bool]string{true: "refuses", false: "up"}[n == f], state(n), lacks)
		}
	}
	f.behind.Set(faultnet.Faults{SwallowReplies: true})
	check("behind", fmt.Sprintf("%s AND k:%d 100 1h", slide(home), other))
	f.behind.Set(faultnet.Faults{})
	f.behind.Cut()
	eventually(t, "the node to take writes", func() bool { return state(f) == "up" })
	f.replica.Kill()
	check("away", fmt.Sprintf("%s AND k:%d 100 1h", slide(other), home))
}

// A master is killed at full load, and comes back as a replica of its successor. Nothing that was admitted is lost.
func TestFailoversLoseNothingThatReplicasHave(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, url string, master, replica *redistest.Server) {
		t.Helper()
		a := askKeys(t, startProxies(t, 2, append(confirmed("2000"), "--backend", url))...)
		a.admits(500)
		master.Kill()
		eventually(t, "the replica to take over", func() bool {
			role, err := replica.Ask("ROLE") // its connections are closed when its role changes
			return err == nil && strings.Contains(role, "master")
		})
		master.Run()
		a.admits(500)
		a.check()
	}
	t.Run("sentinels", func(t *testing.T) {
		t.Parallel()
		g := redistest.StartGuarded(t)
		run(t, g.URL(), g.Master, g.Replica)
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		const masters = 3
		c := redistest.StartReplicated(t, masters)
		slot, err := strconv.Atoi(c.Nodes[0].Do("CLUSTER", "KEYSLOT", "rl:{hot}"))
		require.NoError(t, err)
		i := c.Master(slot)
		run(t, c.URL(), c.Nodes[i], c.Nodes[i+masters])
	})
}

// asking is many clients that ask proxies about a hot key and about keys with small limits.
type asking struct {
	t       *testing.T
	proxies []*proxy
	asked   atomic.Int64 // requests that were answered, also by an error
	mu      sync.Mutex
	got     map[string]int64 // what was admitted of a key; guarded by mu
	stop    atomic.Bool
	done    sync.WaitGroup
}

// hot is a command about a key that has room for all requests of a test, and scarce one that has not.
const (
	hot    = "RL.SLIDE hot 1000000000 1h"
	scarce = "RL.SLIDE scarce:%d 40 1h"
)

func askKeys(t *testing.T, proxies ...*proxy) *asking {
	a := &asking{t: t, proxies: proxies, got: make(map[string]int64)}
	for _, p := range proxies {
		for i := range 4 {
			a.done.Go(func() {
				for n := i; !a.stop.Load(); {
					c, err := connect(p.addr)
					for err == nil && !a.stop.Load() {
						n++
						err = a.ask(c, hot, fmt.Sprintf(scarce, n%50))
					}
				}
			})
		}
	}
	t.Cleanup(a.end)
	return a
}

// ask sends command lines, whose second word is a key each, and counts what is admitted.
func (a *asking) ask(c *conn, lines ...string) error {
	for _, line := range lines {
		replies, err := c.Exchange(words(line))
		if err != nil {
			return err
		}
		a.asked.Add(1)
		if d, err := toDecision(replies[0]); err == nil {
			a.mu.Lock()
			a.got[strings.Fields(line)[1]] += d.allowed
			a.mu.Unlock()
		}
	}
	return nil
}

func (a *asking) end() {
	a.stop.Store(true)
	a.done.Wait()
}

// more waits until n more requests are answered.
func (a *asking) more(n int64) {
	a.t.Helper()
	from := a.asked.Load()
	eventually(a.t, "answers", func() bool { return a.asked.Load() >= from+n })
}

// admits waits until n more requests about the hot key are admitted.
func (a *asking) admits(n int64) {
	a.t.Helper()
	admitted := func() int64 {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.got["hot"]
	}
	from := admitted()
	eventually(a.t, "admissions", func() bool { return admitted() >= from+n })
}

// check ends the clients and the proxies, and requires that everything that was admitted has been charged.
func (a *asking) check() {
	a.t.Helper()
	a.end()
	c := dial(a.t, a.proxies[0].addr)
	for key, got := range a.got {
		charged, reply := int64(0), any(nil)
		eventually(a.t, "the state", func() bool { // the connections of the proxy may have been those to the old node
			reply = c.do(a.t, "RL.INSPECT", key)
			_, failed := reply.(errReply)
			return !failed
		})
		for _, s := range toStates(a.t, reply) {
			charged += s.integer(a.t, "used") + s.integer(a.t, "advanced")
		}
		require.GreaterOrEqual(a.t, charged, got, key)
		if key != "hot" {
			require.LessOrEqual(a.t, got, int64(40), key)
		}
	}
	a.t.Logf("%d requests, admitted of the hot key: %d", a.asked.Load(), a.got["hot"])
}

// BenchmarkWaitReplicas measures what it costs that a replica confirms, beside the node and 1 ms away from it. With one
// client, a request takes what the benchmark says; with 50, the rate is what matters.
func BenchmarkWaitReplicas(b *testing.B) {
	for _, wait := range []string{"0", "1"} {
		for _, away := range []time.Duration{0, time.Millisecond / 2} {
			f := startFollowed(b)
			f.behind.Set(faultnet.Faults{Distance: away})
			p := proxytest.Start(b, "--backend", f.node.URL(), "--backend-timeout", "1000", "--advance", "no", "--wait-replicas", wait)
			for _, clients := range []int{1, 50} {
				b.Run(fmt.Sprintf("wait-replicas=%s/away=%v/clients=%d", wait, 2*away, clients), func(b *testing.B) {
					var left atomic.Int64
					left.Store(int64(b.N))
					var done sync.WaitGroup
					for i := range clients {
						c, err := connect(p.Addr)
						require.NoError(b, err)
						done.Go(func() {
							for n := i; left.Add(-1) >= 0; n += clients {
								if _, err := c.Exchange(words(fmt.Sprintf("RL.SLIDE k:%d 1000000 1h", n%10_000))); err != nil {
									b.Error(err)
								}
							}
							_ = c.Close()
						})
					}
					done.Wait()
				})
			}
		}
	}
}
