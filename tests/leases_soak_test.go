package tests

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSlotsAreNeverOversold lets workers share the slots of a pool through three proxies that are killed and started again. By
// what the workers saw, never more of them worked at a time than there are slots. make soak runs it for 10 s.
func TestSlotsAreNeverOversold(t *testing.T) {
	t.Parallel()
	const slots, workers = 5, 20
	nodes := startNodes(t, 2)
	f := startFleet(t, backends(nodes...))
	var mu sync.Mutex
	type work struct{ from, to time.Time }
	var worked []work     // guarded by mu
	var full atomic.Bool  // some worker had the last slot
	var lost atomic.Int64 // workers that had a slot and lost their connection
	until := time.Now().Add(soakOr(10*time.Second, 3*time.Second))
	goesOn := func() bool {
		done := full.Load() && lost.Load() > 0
		return time.Now().Before(until) || !done && time.Since(until) < time.Minute
	}
	var wg sync.WaitGroup
	for w := range workers {
		wg.Add(1)
		go func() { // ends when the time is over
			defer wg.Done()
			r := newRoamer(uint64(w), f.addrs)
			for n := 0; goesOn(); n++ {
				// The worker has a connection of its own, which it sometimes closes at work, as in a crash.
				id := fmt.Sprintf("w%d:%d", w, n)
				addrs := f.addrs()
				c, err := connect(addrs[r.rng.IntN(len(addrs))])
				if err != nil {
					continue
				}
				replies, err := c.Exchange(words("RL.ACQUIRE pool " + strconv.Itoa(slots) + " TTL 1s CONN ID " + id))
				var d decision
				if err == nil {
					d, err = toDecision(replies[0])
				}
				if err != nil || d.allowed == 0 || d.remaining < 0 {
					_ = c.Close()
					time.Sleep(time.Duration(1+r.rng.IntN(5)) * time.Millisecond)
					continue
				}
				if d.remaining == 0 {
					full.Store(true)
				}
				from := time.Now()
				time.Sleep(time.Duration(r.rng.IntN(30)) * time.Millisecond)
				// If the lease can be renewed it has not ended meanwhile: an ended lease is never revived.
				to := time.Now()
				replies, err = c.Exchange(words("RL.RENEW pool " + id + " TTL 1s"))
				if err == nil && replies[0] == int64(1) {
					mu.Lock()
					worked = append(worked, work{from, to})
					mu.Unlock()
				} else {
					lost.Add(1)
				}
				if r.rng.IntN(2) == 0 {
					_, _ = c.Exchange(words("RL.RELEASE pool " + id))
				}
				_ = c.Close()
			}
		}()
	}
	kills := 0
	for ticker := time.NewTicker(700 * time.Millisecond); goesOn(); <-ticker.C {
		f.restart(t, kills%3)
		kills++
	}
	wg.Wait()
	most := 0
	for i, a := range worked {
		at := 0
		for _, b := range worked {
			if !b.from.After(a.from) && b.to.After(a.from) {
				at++
			}
		}
		most = max(most, at)
		require.LessOrEqual(t, at, slots, "at %v, the beginning of work %d", a.from, i)
	}
	t.Logf("%d times a slot was had, at most %d of %d at a time; %d proxies killed, %d connections lost with a slot", len(worked), most, slots, kills, lost.Load())
	require.True(t, full.Load(), "the pool was full")
	require.Positive(t, lost.Load())
	c := dial(t, f.proxy(0).addr)
	eventually(t, "all slots to be free", func() bool {
		return c.decide(t, fmt.Sprintf("RL.ACQUIRE pool %d ID x COST 0", slots)).remaining == slots
	})
	f.stop(t)
}

// cpu returns the CPU time that a process has used.
func cpu(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+2:]))
	ticks := 0
	for _, at := range []int{11, 12} { // user, system
		n, err := strconv.Atoi(fields[at])
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
