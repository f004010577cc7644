package tests

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// admit sends equal commands in pipelines, and returns how many nodes or advances admitted, and how many FAIL policies did.
func admit(t *testing.T, c *conn, command string, requests int) (admitted, byPolicy int64) {
	t.Helper()
	for ; requests > 0; requests -= 50 {
		for _, reply := range c.pipeline(t, repeat(command, 50)...) {
			d, err := toDecision(reply)
			require.NoError(t, err)
			if d.remaining < 0 {
				byPolicy += d.allowed
			} else {
				admitted += d.allowed
			}
		}
	}
	return admitted, byPolicy
}

// A node that is out of memory takes accounts: what was drawn is known there, and what was not has come back.
func TestAFullNodeTakesAccounts(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, append(backends(n), "--advance", "yes", "--advance-time", "2000", "--fail-policy", "closed")...)
	c := dial(t, p.addr)
	const command = "RL.SLIDE k 1000000 1h"
	admitted := heat(t, c, command)
	n.Do("CONFIG", "SET", "maxmemory", "1")
	eventually(t, "the advance to end", func() bool {
		more, _ := admit(t, c, command, 50)
		admitted += more
		return c.info(t, "advances") == 0
	})
	require.Zero(t, c.info(t, "advance_lapses"))
	used, _ := c.usage(t, "k")
	require.Equal(t, admitted, used)
	n.Do("CONFIG", "SET", "maxmemory", "0")
	require.Equal(t, 1_000_000-admitted-1, c.decide(t, command).remaining)
}

// While a node is away, a proxy draws from what it has, and FAIL LOCAL answers the others. Afterwards the node knows of both.
func TestFailLocalBesideAnAdvance(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--backend-timeout", "300", "--advance", "yes", "--advance-time", "2000", "--fail-policy", "local")
	c := dial(t, p.addr)
	const limit = 20_000
	command := fmt.Sprintf("RL.SLIDE k %d 1h", limit)
	admitted := heat(t, c, command)
	n.Pause()
	drawn, local := admit(t, c, command, 2*limit)
	require.Positive(t, local)
	require.LessOrEqual(t, admitted+drawn, int64(limit))
	require.LessOrEqual(t, local, int64(limit), "the process admits the limit once")
	n.Resume()
	eventually(t, "the node to know what was admitted", func() bool {
		if _, away := c.do(t, "RL.INSPECT", "k").(errReply); away {
			return false
		}
		used, _ := c.usage(t, "k")
		return used >= min(limit, admitted+drawn+local)
	})
	eventually(t, "the node to decide", func() bool { return c.decide(t, command).remaining >= 0 })
	again, _ := admit(t, c, command, 2*limit)
	require.LessOrEqual(t, admitted+drawn+again, int64(limit))
}

// While the slot of a hot key moves, with what is advanced and the key of its calm, two proxies admit the limit, no more
// and no less.
func TestAdvancesWhileASlotMoves(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, nil)
	args := []string{"--backend", cluster.URL(), "--backend-timeout", "10000", "--advance", "yes"}
	p, other := dial(t, startProxy(t, args...).addr), dial(t, startProxy(t, args...).addr)
	const limit = 10_000
	for key := range 3 {
		command := fmt.Sprintf("RL.SLIDE k%d %d 1h", key, limit)
		admitted := heat(t, p, command) + heat(t, other, command)
		more := func() {
			for _, c := range []*conn{p, other} {
				n, byPolicy := admit(t, c, command, 50)
				require.Zero(t, byPolicy)
				admitted += n
			}
		}
		var slot int
		_, err := fmt.Sscan(cluster.Nodes[0].Do("CLUSTER", "KEYSLOT", fmt.Sprintf("rl:{k%d}", key)), &slot)
		require.NoError(t, err)
		if key == 1 { // a request without room begins a calm
			require.Zero(t, p.decide(t, fmt.Sprintf("%s COST %d", command, limit)).allowed)
			require.EqualValues(t, 1, cluster.Nodes[cluster.Master(slot)].Client.Exists(t.Context(), "rl:{k1}%a").Val())
		}
		for range 2 { // there and back
			from := cluster.Master(slot)
			cluster.Move(slot, from, 1-from, more)
		}
		for denied := false; !denied; {
			before := admitted
			more()
			denied = admitted == before
		}
		require.EqualValues(t, limit, admitted, command)
	}
	require.Positive(t, p.info(t, "advance_decisions"))
}

// A proxy asks for nothing as long as no key is hot, and makes few calls for one that is.
func TestCallsAboutAdvancesAreFew(t *testing.T) {
	t.Parallel()
	c := dial(t, startProxy(t, append(backends(startNode(t)), "--advance", "yes", "--advance-time", "100")...).addr)
	for i := range 2000 {
		c.decide(t, fmt.Sprintf("RL.SLIDE cold:%d 1000 1h", i))
	}
	require.Zero(t, c.info(t, "advance_calls"))
	require.Zero(t, c.info(t, "advance_keys"))
	heat(t, c, "RL.SLIDE k 100000000 1h")
	before, began := c.info(t, "advance_calls"), time.Now()
	for range 40 {
		admit(t, c, "RL.SLIDE k 100000000 1h", 500)
	}
	calls := c.info(t, "advance_calls") - before
	const growth = 12 // calls for a demand that grows from one by half, again and again, to what a pipeline brings
	require.LessOrEqual(t, float64(calls), growth+20*time.Since(began).Seconds())
}
