package tests

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// brief is the backend-timeout of these tests, in which nodes do not answer on purpose.
const brief = "500"

// nodeAt returns the node that has the address.
func nodeAt(t *testing.T, nodes []*node, addr string) *node {
	t.Helper()
	for _, n := range nodes {
		if n.Addr == addr {
			return n
		}
	}
	require.Fail(t, "no node has the address "+addr)
	return nil
}

// awayCase is one split key, used through three proxies with one request at a time.
type awayCase struct {
	nodes    []*node
	fleet    *fleet
	links    []*conn
	turn     int
	admitted int64
	failed   int64 // number of requests answered by FAIL policy
}

const awayLimit = 400

func startAway(t *testing.T, args ...string) *awayCase {
	a := &awayCase{nodes: startNodes(t, 4)}
	a.fleet = startFleet(t, append(backends(a.nodes...), args...))
	for _, p := range a.fleet.proxies {
		a.links = append(a.links, dial(t, p.addr))
	}
	return a
}

// link returns the connection to the next proxy.
func (a *awayCase) link() *conn {
	a.turn++
	return a.links[a.turn%len(a.links)]
}

// ask sends times requests and counts how they were answered.
func (a *awayCase) ask(t *testing.T, times int) {
	t.Helper()
	for range times {
		d := a.link().decide(t, "RL.SLIDE k 400 1h SHARDS 4")
		if d.remaining < 0 {
			a.failed++
		} else {
			a.admitted += d.allowed
		}
	}
}

// sum returns how many units are in use.
func (a *awayCase) sum(t *testing.T) int64 {
	t.Helper()
	d := a.link().decide(t, "RL.SLIDE k 400 1h COST 0 SHARDS 4")
	require.GreaterOrEqual(t, d.remaining, int64(0))
	return awayLimit - d.remaining
}

// TestSplitKeySurvivesTheLossOfAShard kills the node of a shard, so that it comes back empty, or
// pauses it, so that it comes back as it was. The home and the other shards continue. What the
// missing shard holds counts as used meanwhile, and nothing is admitted twice.
func TestSplitKeySurvivesTheLossOfAShard(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave, back func(n *node)
		forgets     bool
		args        []string
	}{
		"killed":  {(*node).Kill, (*node).Run, true, nil},
		"stopped": {(*node).Pause, (*node).Resume, false, []string{"--backend-timeout", "1500"}},
	} {
		t.Run(name, func(t *testing.T) {
			a := startAway(t, c.args...)
			a.ask(t, 200)
			require.Equal(t, int64(200), a.admitted)
			before := a.links[0].settled(t, "k")
			require.Len(t, before.shards, 4)
			missing := before.shards[2]
			unused := missing.held - missing.used
			require.Positive(t, unused)

			n := nodeAt(t, a.nodes, missing.node)
			c.leave(n)
			a.ask(t, 400)
			require.LessOrEqual(t, a.failed, int64(9), "only requests that were sent to the missing node are answered by FAIL policy")
			require.Equal(t, int64(awayLimit), a.admitted+unused, "what the missing shard holds counts, and no more")
			during := a.link().inspect(t, "k")
			require.Equal(t, shardState{missing.node, missing.held, missing.held, 0}, during.shards[2])
			require.Equal(t, int64(awayLimit), during.used)
			require.Equal(t, int64(awayLimit), a.sum(t))

			t.Logf("%d admitted, %d answered by FAIL policy, %d unused on the missing shard", a.admitted, a.failed, unused)

			c.back(n)
			failed := a.failed
			eventually(t, "the node to be used again", func() bool {
				a.ask(t, 1)
				return a.link().inspect(t, "k").shards[2].lease == 0 && a.up(t)
			})
			a.ask(t, 60)
			require.Equal(t, failed, a.failed)
			if c.forgets {
				require.Equal(t, int64(awayLimit), a.admitted+unused, "the shard forgot its loan, which counts until the window has passed")
			} else {
				require.LessOrEqual(t, a.admitted, int64(awayLimit))
				require.GreaterOrEqual(t, a.admitted+a.failed, int64(awayLimit), "what the shard had not used is given back")
			}
			require.Equal(t, int64(awayLimit), a.sum(t))
			require.Equal(t, int64(1), a.link().do(t, "RL.RESET", "k"))
			a.admitted = 0
			eventually(t, "all proxies to notice the reset", func() bool {
				a.ask(t, 3)
				return a.admitted >= 3
			})
			a.ask(t, 600)
			require.Equal(t, int64(awayLimit), a.admitted)
			a.fleet.stop(t)
		})
	}
}

// up reports whether all proxies consider all nodes up.
func (a *awayCase) up(t *testing.T) bool {
	t.Helper()
	for _, c := range a.links {
		if strings.Count(c.do(t, "INFO", "engine").(string), "state=up") < len(a.nodes) {
			return false
		}
	}
	return true
}

// TestSplitKeySurvivesTheLossOfItsHome kills the node of the home. The other shards admit
// for as long as their leases last; the FAIL policy answers the other requests. A home that comes
// back empty has forgotten what was admitted: it admits the limit again, and no more than that.
func TestSplitKeySurvivesTheLossOfItsHome(t *testing.T) {
	t.Parallel()
	const tries = 5
	for try := 1; loseHome(t) == 0; try++ { // on a busy machine, the leases may end before the first request
		require.Less(t, try, tries, "no shard admitted a request after its home was killed")
	}
}

// loseHome kills the node of a split key's home, and starts it again. It returns how many requests
// the other shards admitted meanwhile.
func loseHome(t *testing.T) (admitted int64) {
	t.Helper()
	a := startAway(t)
	a.ask(t, 200)
	s := a.links[0].settled(t, "k")
	require.Len(t, s.shards, 4)
	var lent int64
	for i := int64(1); i < 4; i++ {
		lent += s.shards[i].held - s.shards[i].used
	}
	home := nodeAt(t, a.nodes, s.shards[0].node)
	home.Kill()
	began := time.Now()
	for refused := 0; refused < 50; {
		asked := time.Since(began)
		reply := a.link().do(t, words("RL.SLIDE k 400 1h SHARDS 4 FAIL ERROR")...)
		if text, ok := reply.(errReply); ok {
			require.Contains(t, string(text), "UNAVAILABLE "+home.Addr)
			if refused++; asked < 2*time.Second {
				refused = 0 // leases may still run
			}
			continue
		}
		d, err := toDecision(reply)
		require.NoError(t, err)
		require.Equal(t, int64(1), d.allowed, "a shard denied, which only the home may do")
		require.Less(t, asked, 2*time.Second, "a shard admitted after its lease of a second")
		admitted++
	}
	require.LessOrEqual(t, admitted, lent)

	home.Run()
	eventually(t, "the home to be used again", func() bool { return a.up(t) })
	a.admitted = 0
	a.ask(t, 900)
	require.LessOrEqual(t, a.admitted, int64(awayLimit))
	require.GreaterOrEqual(t, a.admitted, awayLimit-s.used-admitted, "only what the shards remember may count")
	require.Equal(t, int64(awayLimit), a.sum(t))
	a.fleet.stop(t)
	return admitted
}

// TestSplitKeyHoldsItsLimitWhileNodesFail takes nodes away one after another under load. The load
// alternates between below the limit, so that there is something to lend, and above it. No window
// admits more than the limit, except around the moment at which the home forgets.
func TestSplitKeyHoldsItsLimitWhileNodesFail(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 4)
	f := startFleet(t, append(backends(nodes...), "--backend-timeout", brief))
	const limit, window, lease = 500, time.Second, time.Second
	d := &demand{fleet: f, clients: 3, phases: []float64{0.8, 1.5}, away: true, tenants: []tenant{
		{key: "k", command: "RL.SLIDE", pairs: []pair{{limit, window}}, cost: 1, options: withShards(4)}}}
	c := dial(t, f.proxies[0].addr)
	ctx, end := context.WithCancel(context.Background())
	defer end()
	done := d.start(ctx)
	more := func(n int64) { // waits for n more requests
		t.Helper()
		from := d.sent.Load()
		eventually(t, "requests", func() bool { return d.sent.Load() >= from+n })
	}
	more(500)
	var state keyState
	for i := int64(1); i < 4; i++ {
		eventually(t, "a loan to the shard", func() bool {
			state = c.inspect(t, "k")
			return state.shards[i].node != ""
		})
		n := nodeAt(t, nodes, state.shards[i].node)
		n.Kill()
		more(500)
		n.Run()
		more(500)
		n.Pause()
		more(500)
		n.Resume()
		more(500)
	}
	lost := time.Now()
	home := nodeAt(t, nodes, state.home)
	home.Kill()
	more(500)
	home.Run()
	back := time.Now()
	more(2500)
	end()
	<-done
	require.NoError(t, d.failure)

	all := d.answers[0]
	keep := func(of func(a *answer) bool) *history {
		h := history{limit: limit, window: window, answers: all}
		h.answers = h.filter(of)
		return &h
	}
	before := keep(func(a *answer) bool { return a.read.Before(lost) })
	after := keep(func(a *answer) bool { return a.sent.After(back.Add(lease)) })
	around := keep(func(*answer) bool { return true })
	around.limit = 2 * limit // once before the home forgot, once after
	require.NoError(t, before.checkLimit())
	require.NoError(t, after.checkLimit())
	require.NoError(t, around.checkLimit())
	t.Logf("before the home was killed %d admitted, %d denied, %d by FAIL policy; afterwards %d, %d, %d",
		len(before.admitted()), len(before.denied()), len(before.lost()),
		len(after.admitted()), len(after.denied()), len(after.lost()))
	for _, h := range []*history{before, after} {
		require.NotEmpty(t, h.admitted())
		require.Less(t, 10*len(h.lost()), len(h.answers), "the FAIL policy answers only requests that were sent to a missing node")
	}
	f.stop(t)
}
