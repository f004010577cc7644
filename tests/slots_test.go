package tests

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slotEngines returns the arguments of a proxy for each engine.
func slotEngines(t *testing.T) map[string][]string {
	return map[string][]string{"embedded": nil, "redis": backends(startNodes(t, 2)...)}
}

// free returns how many of ten slots are free.
func free(t *testing.T, c *conn, key string) int64 {
	t.Helper()
	return c.do(t, "RL.ACQUIRE", key, 10, "ID", "probe", "COST", 0).([]any)[2].(int64)
}

// TestAKilledClientFreesItsSlotsAtOnce kills a process whose leases would otherwise last an hour. It measures how long it takes
// until the slots are free, so it does not run in parallel with others.
func TestAKilledClientFreesItsSlotsAtOnce(t *testing.T) {
	for name, args := range slotEngines(t) {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, args...)
			c := dial(t, p.addr)
			for range 5 {
				client := exec.Command("redis-cli", "-p", port(t, p.addr))
				in, err := client.StdinPipe()
				require.NoError(t, err)
				require.NoError(t, client.Start())
				_, err = io.WriteString(in, "RL.ACQUIRE gpu 10 ID one CONN TTL 1h COST 4\nRL.ACQUIRE gpu 10 ID two TTL 1h CONN\n")
				require.NoError(t, err)
				eventually(t, "the client to acquire", func() bool { return free(t, c, "gpu") == 5 })
				began := time.Now()
				require.NoError(t, client.Process.Signal(syscall.SIGKILL))
				for free(t, c, "gpu") < 10 {
					require.Less(t, time.Since(began), 5*time.Second) // of a machine that tests share; the leases last an hour
				}
				require.Error(t, client.Wait(), "it was killed")
			}
		})
	}
}

// TestWorkersShareSlots runs a pool of workers, each of which pretends to work while it has a slot. Some of them crash.
func TestWorkersShareSlots(t *testing.T) {
	t.Parallel()
	const workers, slots = 30, 4
	for name, args := range slotEngines(t) {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, args...)
			var working, most, done, crashes atomic.Int64
			var wg sync.WaitGroup
			deadline := time.Now().Add(soakOr(6*time.Second, time.Second))
			for worker := range workers {
				wg.Go(func() { // ends at the deadline, or later if too few have crashed
					random := rand.New(rand.NewPCG(16, uint64(worker))) // #nosec G404 -- a test's choices
					var c *conn
					for job := 0; time.Now().Before(deadline) || crashes.Load() <= 10; {
						if c == nil {
							var err error
							if c, err = connect(p.addr); err != nil {
								t.Error(err)
								return
							}
						}
						id := fmt.Sprint(worker, "-", job)
						replies, err := c.Exchange([]any{"RL.ACQUIRE", "pool", slots, "ID", id, "CONN"})
						if err != nil {
							t.Error(err)
							return
						}
						if got, ok := replies[0].([]any); !ok || got[0] == int64(0) {
							if !ok || got[3].(int64) < 1 {
								t.Error("not a denial:", replies[0])
								return
							}
							continue // ask again
						}
						n := working.Add(1)
						for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
							continue
						}
						for range random.IntN(5) {
							if _, err = c.Exchange([]any{"PING"}); err != nil {
								t.Error(err)
							}
						}
						working.Add(-1)
						job++
						done.Add(1)
						if random.IntN(4) == 0 { // a crash
							crashes.Add(1)
							_ = c.Close()
							c = nil
							continue
						}
						if replies, err = c.Exchange([]any{"RL.RELEASE", "pool", id}); err != nil || replies[0] != int64(1) {
							t.Error("not released:", replies, err)
							return
						}
					}
					if c != nil {
						_ = c.Close()
					}
				})
			}
			wg.Wait()
			t.Log(done.Load(), "jobs,", crashes.Load(), "crashes, at most", most.Load(), "at once")
			require.EqualValues(t, slots, most.Load(), "never more, and all were used")
			c := dial(t, p.addr)
			eventually(t, "all slots to be free", func() bool { return free(t, c, "pool") == 10 })
		})
	}
}

// TestManyLeasesOfManyConnectionsAreRenewed holds leases for longer than their TTL. make soak does it with 10,000 leases of
// 1,000 connections, and logs how much CPU time that takes.
func TestManyLeasesOfManyConnectionsAreRenewed(t *testing.T) {
	t.Parallel()
	const each = 10
	connections, ttl := 50, "4s" // a busy machine may be late by more than a second
	if soak > 0 {
		connections, ttl = 1000, "6s"
	}
	for name, args := range slotEngines(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, args...)
			var open []*conn
			for i := range connections {
				c := dial(t, p.addr)
				open = append(open, c)
				var pipeline [][]any
				for j := range each {
					pipeline = append(pipeline, []any{"RL.ACQUIRE", fmt.Sprint("k", i%7), 1_000_000, "ID", fmt.Sprint(i, "-", j), "CONN", "TTL", ttl})
				}
				for _, reply := range c.pipeline(t, pipeline...) {
					require.EqualValues(t, 1, reply.([]any)[0])
				}
			}
			held := func(c *conn) (n int64) {
				for i := range 7 {
					n += 1_000_000 - c.do(t, "RL.ACQUIRE", fmt.Sprint("k", i), 1_000_000, "ID", "probe", "COST", 0).([]any)[2].(int64)
				}
				return n
			}
			last := open[len(open)-1]
			began, spent := time.Now(), cpu(t, p.Cmd.Process.Pid)
			for time.Since(began) < soakOr(8*time.Second, 9*time.Second) {
				require.EqualValues(t, connections*each, held(last))
				time.Sleep(100 * time.Millisecond)
			}
			spent = cpu(t, p.Cmd.Process.Pid) - spent
			t.Logf("%d leases for %s of %d connections: %.1f %% of a processor, %d MB",
				connections*each, ttl, connections, 100*spent.Seconds()/time.Since(began).Seconds(), residentMB(t, p.Cmd.Process.Pid))
			for _, c := range open[:len(open)-1] {
				require.NoError(t, c.Close())
			}
			eventually(t, "the leases of closed connections to be released", func() bool { return held(last) == each })
		})
	}
}

// TestSlotsAreFreedAfterTheirProxyEnds stops one proxy, which releases its clients' leases, and kills another, whose leases end
// with their TTL.
func TestSlotsAreFreedAfterTheirProxyEnds(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	stays := startProxy(t, backends(n)...)
	c := dial(t, stays.addr)
	hold := func(ttl string) *proxy {
		p := startProxy(t, backends(n)...)
		for id := range 3 {
			reply := dial(t, p.addr).do(t, "RL.ACQUIRE", "gpu", 10, "ID", id, "CONN", "TTL", ttl)
			require.EqualValues(t, 1, reply.([]any)[0])
		}
		require.EqualValues(t, 7, free(t, c, "gpu"))
		return p
	}
	hold("1h").stop(t)
	require.EqualValues(t, 10, free(t, c, "gpu"), "released before the proxy ended")

	p := hold("2s")
	began := time.Now()
	p.Kill()
	require.EqualValues(t, 7, free(t, c, "gpu"))
	eventually(t, "the TTL to end the leases", func() bool { return free(t, c, "gpu") == 10 })
	require.Greater(t, time.Since(began), time.Second, "a third of the TTL may have passed when it was killed")
}
