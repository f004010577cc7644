package engine

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// inquiry is one request of many at once: to a key of its own, with a limit of its own.
type inquiry struct {
	key      string
	at       time.Time
	took     time.Duration
	answered bool // by a node
}

// askers ask one request after the other until stop is closed. Whatever else happens,
// each is answered in time, and by a node only as the first one about its key.
func askers(t *testing.T, e *Redis, answered *atomic.Int64, stop chan struct{}) func() []inquiry {
	const workers = 8
	all := make([][]inquiry, workers)
	var done sync.WaitGroup
	for w := range workers {
		done.Add(1)
		go func() { // until stop is closed
			defer done.Done()
			tick := time.NewTicker(2 * time.Millisecond)
			defer tick.Stop()
			for i := int64(0); ; i++ {
				select {
				case <-stop:
					return
				case <-tick.C:
				}
				limit := int64(w+1)*1_000_000 + i
				a := inquiry{key: fmt.Sprint("asked:", limit), at: time.Now()}
				res := do(e, charge(a.key, limit))
				a.took, a.answered = time.Since(a.at), res.Err == nil
				if a.answered {
					answered.Add(1)
					if !res.Allowed || res.Limit != limit || res.Remaining != limit-1 {
						t.Errorf("%s was answered %+v", a.key, res.Decision)
					}
				}
				all[w] = append(all[w], a)
			}
		}()
	}
	return func() []inquiry {
		done.Wait()
		return flatten(all)
	}
}

// A failover that sentinels are asked for costs next to nothing: the old master
// decides until they name the new one. What it admits after the replica has left
// it is lost, as Sentinel has it; nothing is charged twice.
func TestSentinelPlannedFailover(t *testing.T) {
	const timeout = 500 * time.Millisecond
	g := redistest.StartGuarded(t)
	e := openBackend(t, timeout, g.URL())
	ready(t, e, "k")
	var answered atomic.Int64
	stop := make(chan struct{})
	wait := askers(t, e, &answered, stop)
	more := func() {
		from := answered.Load()
		require.Eventually(t, func() bool { return answered.Load() > from+500 }, 20*time.Second, time.Millisecond)
	}
	more()
	g.Sentinels[0].Do("SENTINEL", "FAILOVER", redistest.SentinelName)
	require.Eventually(t, func() bool {
		states := do(e, Request{Op: OpInspect, Key: []byte("asked:1000000")}).States
		return len(states) == 1 && states[0].Node == g.Replica.Addr
	}, 20*time.Second, time.Millisecond, "the replica is asked")
	over := time.Now()
	more()
	close(stop)
	all := wait()

	var lost, refused int
	var worst time.Duration
	for _, a := range all {
		worst = max(worst, a.took)
		used := int64(0)
		res := do(e, Request{Op: OpInspect, Key: []byte(a.key)})
		require.NoError(t, res.Err)
		for _, s := range res.States {
			used += s.Used
		}
		require.LessOrEqual(t, used, int64(1), "%s: charged more than once", a.key)
		switch {
		case a.at.After(over):
			require.True(t, a.answered && used == 1, "%s: asked after the failover, answered: %t, charged %d", a.key, a.answered, used)
		case !a.answered:
			refused++
		case used == 0:
			lost++
		}
	}
	t.Logf("%d requests: %d refused, %d answered by the old master and lost with it, worst %v", len(all), refused, lost, worst.Round(time.Millisecond))
	require.Less(t, worst, timeout+lateness)
	require.Less(t, refused, len(all)/10, "service goes on")
}
