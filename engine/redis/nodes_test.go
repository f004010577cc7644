package redis

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// No request waits for sentinels or cluster nodes: policies answer until they have named the nodes.
func TestPoliciesAnswerUntilNodesAreKnown(t *testing.T) {
	s := redistest.Start(t)
	for _, url := range []string{"redis+sentinel://" + s.Addr + "/main", "redis+cluster://" + s.Addr} {
		e := openAlways(t, 20*time.Second, url) // a server that is neither
		from := time.Now()
		for range 100 {
			require.ErrorContains(t, conformance.Ask(e, charge("k", 10)).Err, "UNAVAILABLE "+s.Addr+": ")
		}
		require.Less(t, time.Since(from), 10*time.Second)
		r := charge("k", 10)
		r.Fail = engine.FailOpen
		require.True(t, conformance.Ask(e, r).Allowed)
		require.Contains(t, info(t, e, "node0"), "state=down")
	}
}

// Requests about a slot that no node serves are answered by policy; other slots are served.
func TestClusterWithoutASlot(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, nil)
	keys := clusterKeys()
	for _, n := range c.Nodes {
		n.Do("CLUSTER", "DELSLOTS", slotOf(keys[0]))
	}
	e := openAlways(t, 20*time.Second, c.URL())
	ready(t, e, keys[1:]...)
	require.ErrorContains(t, conformance.Ask(e, charge(keys[0], 10)).Err, "no node serves the key's slot")
	require.NoError(t, conformance.Ask(e, charge(keys[1], 10)).Err)

	c.Nodes[1].Do("CLUSTER", "ADDSLOTS", slotOf(keys[0]))
	ready(t, e, keys[0])
	states := func() []engine.Inspection { return conformance.Ask(e, conformance.Inspect(keys[0])).States }
	require.NoError(t, conformance.Ask(e, charge(keys[0], 10)).Err)
	require.Equal(t, c.Nodes[1].Addr, states()[0].Node)
}

// A master that is cut off from the others does not know that one of them has taken its place, and a sentinel on its side does
// not know either. Other nodes and sentinels are asked, too.
func TestAMasterThatIsCutOffIsLeft(t *testing.T) {
	key := clusterKeys()[0] // in the first half of the slots
	for why, url := range map[string]string{
		"CLUSTERDOWN The cluster is down":               "redis+cluster://%s,%s",
		"NOREPLICAS Not enough good replicas to write.": "redis+sentinel://%s,%s/main",
	} {
		t.Run(why, func(t *testing.T) {
			cut, next := startFake(t), startFake(t)
			// behave lets n say that `first` is the master of the sentinels, or of the first half of the slots.
			behave := func(n, first *fakeNode, refuses bool) {
				host, port, _ := net.SplitHostPort(first.addr)
				_, last, _ := net.SplitHostPort(next.addr)
				n.set(func(args []string) reply {
					switch {
					case args[0] == "sentinel":
						return reply{text: "*2\r\n" + bulk(host) + bulk(port)}
					case args[0] == "cluster":
						node := "*3\r\n" + bulk(host) + ":%s\r\n" + bulk(strings.Repeat("a", 40))
						return reply{text: fmt.Sprintf("*2\r\n*3\r\n:0\r\n:8191\r\n"+node+"*3\r\n:8192\r\n:16383\r\n"+node, port, last)}
					case refuses && (args[0] == "fcall" || args[0] == "eval"):
						return reply{text: "-" + why + "\r\n"}
					}
					return n.well(args)
				})
			}
			behave(cut, cut, false)
			behave(next, cut, false)
			e := openAlways(t, 5*time.Second, fmt.Sprintf(url, cut.addr, next.addr))
			ready(t, e, key)
			require.Equal(t, cut.addr, e.Topology().Nodes[0].Name())
			behave(cut, cut, true)
			behave(next, next, false)
			ready(t, e, key)
			require.Equal(t, next.addr, e.Topology().Nodes[0].Name())
		})
	}
}

// A master that hangs delays only its own keys, and its replica takes over within seconds without our
// help.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	c := redistest.StartReplicated(t, 3)
	e := openAlways(t, timeout, c.URL())
	keys := clusterKeys()
	ready(t, e, keys...)
	c.Nodes[0].Pause()
	defer c.Nodes[0].Resume()
	stopped := time.Now()
	var took waits
	var others error
	require.Eventually(t, func() bool {
		from := time.Now()
		for _, key := range keys[1:] {
			others = errors.Join(others, conformance.Ask(e, charge(key, 1000)).Err)
		}
		res := conformance.Ask(e, charge(keys[0], 1000))
		took.since(from)
		return res.Err == nil
	}, 20*time.Second, 10*time.Millisecond, "the replica took over")
	require.NoError(t, others)
	took.requireInTime(t, timeout)
	t.Logf("taken over after %s, slowest round of three %s", time.Since(stopped).Round(time.Millisecond), took.worst())
	states := conformance.Ask(e, conformance.Inspect(keys[0])).States
	require.Len(t, states, 1)
	require.Equal(t, c.Nodes[3].Addr, states[0].Node)
}

// When a master hangs, policies answer until the sentinels have promoted the replica. The old master
// is not used when it is back.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	const timeout = 500 * time.Millisecond
	g := redistest.StartGuarded(t)
	e := openAlways(t, timeout, g.URL())
	ready(t, e, "k")
	require.NoError(t, conformance.Ask(e, charge("k", 1000)).Err)
	states := conformance.Ask(e, conformance.Inspect("k")).States
	require.Len(t, states, 1)
	require.Equal(t, g.Master.Addr, states[0].Node)

	g.Master.Pause()
	t.Cleanup(g.Master.Kill)
	stopped := time.Now()
	var took waits
	require.Eventually(t, func() bool {
		from := time.Now()
		res := conformance.Ask(e, charge("k", 1000))
		took.since(from)
		return res.Err == nil
	}, 20*time.Second, 10*time.Millisecond, "the replica took over")
	t.Logf("taken over after %s, worst answer %s", time.Since(stopped).Round(time.Millisecond), took.worst())
	took.requireInTime(t, timeout)
	g.Master.Resume()
	states = conformance.Ask(e, conformance.Inspect("k")).States
	require.Len(t, states, 1)
	require.Equal(t, g.Replica.Addr, states[0].Node)
}

// inquiry is one of many concurrent requests, with its own key and limit.
type inquiry struct {
	key      string
	at       time.Time
	took     time.Duration
	answered bool // by a node
}

// askers send requests until stop is closed. A node that answers one must answer as for the first
// request about its key.
func askers(t *testing.T, e *Engine, answered *atomic.Int64, stop chan struct{}) func() []inquiry {
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
				most := int64(w+1)*1_000_000 + i
				a := inquiry{key: fmt.Sprint("asked:", most), at: time.Now()}
				res := conformance.Ask(e, charge(a.key, most))
				a.took, a.answered = time.Since(a.at), res.Err == nil
				if a.answered {
					answered.Add(1)
					if !res.Allowed || res.Limit != most || res.Remaining != most-1 {
						t.Errorf("%s was answered %+v", a.key, res.Decision)
					}
				}
				all[w] = append(all[w], a)
			}
		}()
	}
	return func() []inquiry {
		done.Wait()
		return slices.Concat(all...)
	}
}

// A failover that an operator asks the sentinels for costs next to nothing: the old master decides
// until they name the new one. What it admits after the replica has left it is lost, which Sentinel
// permits; nothing is charged twice.
func TestSentinelPlannedFailover(t *testing.T) {
	t.Parallel()
	const timeout = 5 * time.Second
	g := redistest.StartGuarded(t)
	e := openAlways(t, timeout, g.URL())
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
		states := conformance.Ask(e, conformance.Inspect("asked:1000000")).States
		return len(states) == 1 && states[0].Node == g.Replica.Addr
	}, 20*time.Second, time.Millisecond, "the replica is asked")
	over := time.Now()
	more()
	close(stop)
	all := wait()

	var lost, refused int
	var took waits
	for _, a := range all {
		took = append(took, a.took)
		used := int64(0)
		res := conformance.Ask(e, conformance.Inspect(a.key))
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
	t.Logf("%d requests: %d refused, %d answered by the old master and lost with it, worst %v", len(all), refused, lost, took.worst())
	took.requireInTime(t, timeout)
	require.Less(t, refused, len(all)/10, "service goes on")
}
