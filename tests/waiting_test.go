package tests

import (
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// begin sends a command line without waiting for the reply.
func begin(t *testing.T, c *conn, line string) {
	t.Helper()
	_, err := c.Write(appendCommand(nil, words(line)...))
	require.NoError(t, err)
}

// finish reads the reply to a decision that begin has asked for.
func finish(t *testing.T, c *conn) decision {
	t.Helper()
	reply, err := c.ReadReply()
	require.NoError(t, err)
	d, err := toDecision(reply)
	require.NoError(t, err, "%v", reply)
	return d
}

// wait waits until a number of clients wait.
func wait(t *testing.T, c *conn, n int64) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " clients to wait"), func() bool { return c.info(t, "blocked_clients") == n })
}

func TestBlockWaitsForEachCommand(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		c.do(t, words("RL.POLICY SET api SLIDE 1 300ms")...)
		for _, line := range []string{
			"RL.SLIDE slide 1 300ms", "RL.COUNTER counter 1 300ms STRICT", "RL.FIXED fixed 1 300ms", "RL.BUCKET bucket 1 1 300ms",
			"RL.CHECK api k", "RL.SLIDE once 2 300ms COST 2 ONCE a", "RL.SLIDE several 1 300ms 5 1s",
		} {
			require.Equal(t, int64(1), c.decide(t, line+" BLOCK 60000").allowed, line)
			again := strings.Replace(line, "ONCE a", "ONCE b", 1) + " BLOCK 60000"
			replies := c.pipeline(t, words(again), words("PING"))
			d, err := toDecision(replies[0])
			require.NoError(t, err)
			require.Equal(t, int64(1), d.allowed, again)
			require.Zero(t, d.retryAfter)
			require.EqualValues(t, "PONG", replies[1])
		}
		require.Zero(t, c.info(t, "blocked_clients"))
	})
}

func TestBlockIsDeniedAtOnceInVain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for _, line := range []string{"RL.SLIDE k 1 1h", "RL.BUCKET b 1 1 1h"} {
			require.Equal(t, int64(1), c.decide(t, line).allowed)
			d := c.decide(t, line+" BLOCK 60000")
			require.Zero(t, d.allowed)
			require.Greater(t, d.retryAfter, int64(60_000))
			require.Equal(t, int64(1), c.decide(t, line+" SHADOW").allowed)
			d = c.decide(t, line+" SHADOW BLOCK 3600000")
			require.Equal(t, int64(1), d.allowed)
			require.Positive(t, d.retryAfter, "a shadow never waits")
			replies := c.pipeline(t, words("MULTI"), words(line+" BLOCK 3600000"), words("EXEC"))
			d, err := toDecision(replies[2].([]any)[0])
			require.NoError(t, err)
			require.Zero(t, d.allowed)
		}
		require.Equal(t, int64(1), c.decide(t, "RL.ACQUIRE s 1 ID a").allowed)
		began := time.Now()
		d := c.decide(t, "RL.ACQUIRE s 1 ID b BLOCK 50")
		require.Zero(t, d.allowed)
		require.GreaterOrEqual(t, time.Since(began), 50*time.Millisecond, "slots may be released earlier")
	})
}

// TestAReleaseThroughAnyProxyLetsTheNextIn has clients wait for one slot, through two proxies.
func TestAReleaseThroughAnyProxyLetsTheNextIn(t *testing.T) {
	t.Parallel()
	cluster, scripted := redistest.StartCluster(t, 3, nil), startNode(t)
	scripted.Do("ACL", "SETUSER", "default", "-fcall", "-function")
	for name, args := range map[string][]string{
		"script": backends(scripted),
		"nodes":  backends(startNodes(t, 2)...), "no advances": append(backends(startNode(t)), "--advance", "no"),
		"cluster": {"--backend-timeout", "10000", "--backend", cluster.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			proxies := startProxies(t, 2, args)
			here, there := dial(t, proxies[0].addr), dial(t, proxies[1].addr)
			for _, c := range []*conn{here, there} {
				eventually(t, "the node's decision", func() bool { return c.decide(t, "RL.SLIDE job 1 1h COST 0").remaining >= 0 })
			}
			const clients = 5
			var waiters []*conn
			require.Equal(t, int64(1), there.decide(t, "RL.ACQUIRE job 1 ID first TTL 1h").allowed)
			for i := range clients {
				c := dial(t, proxies[0].addr)
				begin(t, c, fmt.Sprintf("RL.ACQUIRE job 1 ID %d TTL 1h BLOCK 3600000", i))
				waiters = append(waiters, c)
				wait(t, here, int64(i+1))
			}
			holder := "first"
			for i, c := range waiters {
				require.Equal(t, int64(1), there.do(t, "RL.RELEASE", "job", holder))
				require.Equal(t, int64(1), finish(t, c).allowed)
				holder = fmt.Sprint(i)
				wait(t, here, int64(clients-1-i))
			}
			begin(t, waiters[0], "RL.ACQUIRE job 1 ID reset TTL 1h BLOCK 3600000")
			wait(t, here, 1)
			require.Equal(t, int64(1), there.do(t, "RL.RESET", "job"))
			require.Equal(t, int64(1), finish(t, waiters[0]).allowed, "after a reset through the other proxy")
			for _, p := range proxies {
				p.stop(t)
			}
		})
	}
}

func TestWaitsEnd(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		require.Equal(t, int64(1), c.decide(t, "RL.ACQUIRE s 1 ID a TTL 1h").allowed)
		start := func(id string) (w *conn, client int64) {
			w = dial(t, p.addr)
			client = w.do(t, "CLIENT", "ID").(int64)
			begin(t, w, "RL.ACQUIRE s 1 BLOCK 3600000 ID "+id)
			wait(t, c, 1)
			return w, client
		}
		w, id := start("timeout")
		require.Contains(t, c.do(t, "CLIENT", "LIST", "ID", id), " flags=b ")
		require.Contains(t, c.do(t, "CLIENT", "LIST", "ID", id), " cmd=rl.acquire ")
		require.Equal(t, int64(1), c.do(t, "CLIENT", "UNBLOCK", id))
		require.Equal(t, int64(0), c.do(t, "CLIENT", "UNBLOCK", id))
		require.Zero(t, finish(t, w).allowed)
		require.NotContains(t, c.do(t, "CLIENT", "LIST", "ID", id), " flags=b ")

		w, id = start("error")
		require.Equal(t, int64(1), c.do(t, "CLIENT", "UNBLOCK", id, "ERROR"))
		reply, err := w.ReadReply()
		require.NoError(t, err)
		require.Equal(t, "UNBLOCKED client unblocked via CLIENT UNBLOCK", fmt.Sprint(reply))

		w, id = start("killed")
		require.Equal(t, int64(1), c.do(t, "CLIENT", "KILL", "ID", id))
		wait(t, c, 0)
		_, err = w.ReadReply()
		require.Error(t, err)

		w, _ = start("closed")
		require.NoError(t, w.Close())
		wait(t, c, 0)

		w, _ = start("half-closed")
		require.NoError(t, w.Conn.Conn.(*net.TCPConn).CloseWrite())
		wait(t, c, 0)

		require.Equal(t, int64(1), c.do(t, "RL.RELEASE", "s", "a"))
		require.Equal(t, int64(1), c.decide(t, "RL.ACQUIRE s 1 ID b COST 0").allowed, "nobody who left got the slot")
	})
}

func TestADrainDeniesThoseWhoWait(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(startNode(t))} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, args...)
			c, w := dial(t, p.addr), dial(t, p.addr)
			require.Equal(t, int64(1), c.decide(t, "RL.SLIDE k 1 30m").allowed)
			begin(t, w, "RL.SLIDE k 1 30m BLOCK 3600000")
			wait(t, c, 1)
			p.stop(t)
			require.Zero(t, finish(t, w).allowed)
		})
	}
}

// TestAClientThatGoesAwayWhileItIsAdmittedIsNotCharged stops the node while it is asked for a request that waits, and goes on
// when the client has gone.
func TestAClientThatGoesAwayWhileItIsAdmittedIsNotCharged(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--backend-timeout", "60000")
	c := dial(t, p.addr)
	for i, line := range []string{
		"RL.SLIDE k0 4 400ms COST 4", "RL.COUNTER k1 4 400ms COST 4 STRICT", "RL.FIXED k2 4 400ms COST 4", "RL.BUCKET k3 4 8 400ms COST 4",
		"RL.ACQUIRE k4 4 ID a COST 4 TTL 400ms",
	} {
		for { // until the node stops after it was asked first, and before there is room
			require.Equal(t, int64(1), c.decide(t, line+" BLOCK 60000").allowed)
			w := dial(t, p.addr)
			begin(t, w, strings.Replace(line, "ID a", "ID b", 1)+" BLOCK 60000")
			wait(t, c, 1)
			n.Pause()
			asked := c.info(t, "waiting_questions")
			eventually(t, "the node to be asked", func() bool {
				return c.info(t, "waiting_questions") > asked || c.info(t, "blocked_clients") == 0
			})
			gone := c.info(t, "blocked_clients") == 1
			require.NoError(t, w.Close())
			if gone {
				wait(t, c, 0)
			}
			n.Resume()
			if !gone {
				continue // it was admitted before
			}
			eventually(t, "its units to be given back: "+line, func() bool {
				used, held := c.usage(t, fmt.Sprint("k", i))
				return used+held == 0
			})
			break
		}
	}
	p.stop(t)
}

// TestWaitersOfTwoProxiesKeepALimit has many clients ask again and again, and checks that they are all admitted, no more than the
// limit in any window, and that the node is not asked for each of them again and again.
func TestWaitersOfTwoProxiesKeepALimit(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"nodes": backends(startNodes(t, 2)...), "no advances": append(backends(startNode(t)), "--advance", "no")} {
		t.Run(name, func(t *testing.T) {
			proxies := startProxies(t, 2, args)
			const clients, times, limit, window = 40, 3, 10, 100 // ms
			var wg sync.WaitGroup
			var admitted atomic.Int64
			began := time.Now()
			for i := range clients {
				c := dial(t, proxies[i%2].addr)
				wg.Go(func() {
					for range times {
						replies, err := c.Exchange(words(fmt.Sprintf("RL.SLIDE api %d %dms BLOCK 3600000", limit, window)))
						if err != nil {
							t.Error(err)
							return
						}
						if d, err := toDecision(replies[0]); err != nil || d.allowed != 1 {
							t.Error(d, err)
							return
						}
						admitted.Add(1)
					}
				})
			}
			wg.Wait()
			require.Equal(t, int64(clients*times), admitted.Load())
			least := (clients*times/limit - 1) * window * time.Millisecond
			require.GreaterOrEqual(t, time.Since(began), least, "the limit was not kept")
			asked := int64(0)
			for _, p := range proxies {
				asked += dial(t, p.addr).info(t, "waiting_questions")
				p.stop(t)
			}
			t.Logf("%d questions for %d admitted", asked, admitted.Load())
			passed := int64(time.Since(began)/(window*time.Millisecond)) + 1
			require.LessOrEqual(t, asked, 2*int64(clients*times)+4*passed, "at most two for each that is admitted, and some for each window")
		})
	}
}

// TestThoseWhoWaitAreAnsweredOverAFailover ends a master while clients of two proxies wait. Each is admitted, or answered by its
// FAIL policy. Those with an id ask again until they are admitted, and are charged once.
func TestThoseWhoWaitAreAnsweredOverAFailover(t *testing.T) {
	t.Parallel()
	const clients, times = 8, 5
	g := redistest.StartGuarded(t)
	proxies := startProxies(t, 2, []string{"--backend", g.URL()})
	for _, p := range proxies {
		p.ready(t)
	}
	var wg sync.WaitGroup
	var admitted, refused atomic.Int64 // of those without ids
	var once, slots atomic.Int64
	ask := func(c *conn, line string) (d decision) {
		replies, err := c.Exchange(words(line + " BLOCK 10000"))
		if err == nil {
			d, err = toDecision(replies[0])
		}
		if err != nil {
			t.Error(line, err)
		}
		return d
	}
	for i := range clients {
		c := dial(t, proxies[i%2].addr)
		wg.Go(func() {
			for j := 0; j < times && !t.Failed(); j++ {
				if ask(c, "RL.SLIDE plain 1 50ms 100000 1h").allowed == 1 {
					admitted.Add(1)
				} else {
					refused.Add(1)
				}
				id := fmt.Sprint(i, "-", j)
				for !t.Failed() && ask(c, "RL.SLIDE once 1 50ms 100000 1h ONCE "+id).allowed == 0 {
				}
				once.Add(1)
				for !t.Failed() && ask(c, "RL.ACQUIRE slots 1 TTL 1s ID "+id).allowed == 0 {
				}
				slots.Add(1)
				_, _ = c.Exchange(words("RL.RELEASE slots " + id)) // if it is not answered, the lease ends by its TTL
			}
		})
	}
	eventually(t, "the first to be admitted", func() bool { return slots.Load() >= 3 })
	g.Master.Kill()
	wg.Wait()
	require.Equal(t, [2]int64{clients * times, clients * times}, [2]int64{once.Load(), slots.Load()})
	require.Equal(t, int64(clients*times), admitted.Load()+refused.Load())
	c := dial(t, proxies[0].addr)
	for key, most := range map[string]int64{"once": clients * times, "plain": admitted.Load() + refused.Load()} {
		used := int64(0)
		for _, s := range toStates(t, c.do(t, "RL.INSPECT", key)) {
			used = max(used, s.integer(t, "used"))
		}
		require.Positive(t, used)
		require.LessOrEqual(t, used, most, key)
	}
	for _, p := range proxies {
		p.stop(t)
	}
}

// TestWaitersTakeLittleMemory has as many clients wait as may.
func TestWaitersTakeLittleMemory(t *testing.T) {
	p := startProxy(t, append(backends(startNode(t)), "--maxclients", "12000")...)
	c := dial(t, p.addr)
	const keys, mostKB = 10, 12 // for each that waits
	for i := range keys {
		require.Equal(t, int64(1), c.decide(t, fmt.Sprintf("RL.ACQUIRE slots:%d 1 ID first TTL 1h", i)).allowed)
	}
	var waiters []*conn
	more := func(clients int) {
		for range clients {
			w := dial(t, p.addr)
			begin(t, w, fmt.Sprintf("RL.ACQUIRE slots:%d 1 ID %d TTL 1h BLOCK 3600000", len(waiters)%keys, len(waiters)))
			waiters = append(waiters, w)
		}
		wait(t, c, int64(len(waiters)))
	}
	more(times(500)) // from now on, the process has the memory that it needs in any case
	before := memoryKB(t, p.Cmd.Process.Pid, "VmRSS")
	more(times(9500))
	each := float64(memoryKB(t, p.Cmd.Process.Pid, "VmRSS")-before) / float64(times(9500))
	t.Logf("%.1f KB for each that waits", each)
	if !raceEnabled {
		require.LessOrEqual(t, each, float64(mostKB))
		require.Equal(t, errReply("ERR too many clients wait"), c.do(t, "RL.ACQUIRE", "slots:0", 1, "ID", "more", "TTL", "1h", "BLOCK", 1000))
	}
	require.Equal(t, int64(1), c.do(t, "RL.RELEASE", "slots:0", "first"))
	require.Equal(t, int64(1), finish(t, waiters[0]).allowed)
	wait(t, c, int64(len(waiters)-1))
	p.stop(t)
}
