package tests

import (
	"strconv"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// TestIDsBelongToTheirKeyAndCommand uses ids with other keys and commands, where they are unknown: nothing is charged, held or
// given back.
func TestIDsBelongToTheirKeyAndCommand(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		integers := func(line string) (n []int64) {
			reply, ok := c.do(t, words(line)...).([]any)
			require.True(t, ok, line)
			for _, item := range reply {
				n = append(n, item.(int64))
			}
			return n
		}
		require.Equal(t, []int64{1, 10, 6}, integers("RL.RESERVE k 10 60 COST 4 ID a")[:3])
		require.Equal(t, []int64{1, 10, 5}, integers("RL.SLIDE k 10 60 ONCE a")[:3], "another kind of id")
		require.Equal(t, []int64{1, 2, 1}, integers("RL.ACQUIRE k 2 ID a")[:3])

		require.Equal(t, []int64{0, 0, 0}, integers("RL.SETTLE other a 4"), "another key's id")
		require.Equal(t, []int64{0, 0, 0}, integers("RL.SETTLE k b 4"), "an unknown id")
		require.EqualValues(t, 0, c.do(t, words("RL.RELEASE other a")...))
		require.EqualValues(t, 0, c.do(t, words("RL.RENEW other a")...))
		require.EqualValues(t, 0, c.do(t, words("RL.RENEW k b")...))
		require.Equal(t, []any{}, c.do(t, "RL.INSPECT", "other"))
		require.Equal(t, []int64{1, 10, 5}, integers("RL.SLIDE k 10 60 COST 0")[:3])

		require.Equal(t, []int64{1, 1, 3}, integers("RL.SETTLE k a 1"))
		require.EqualValues(t, 1, c.do(t, words("RL.RENEW k a")...), "it is a lease's id, too")
		require.Equal(t, []int64{0, 0, 0}, integers("RL.SETTLE k a 2"), "settled with another cost")
		require.Equal(t, []int64{1, 1, 3}, integers("RL.SETTLE k a 1"), "asked again")
		require.EqualValues(t, 1, c.do(t, words("RL.RELEASE k a a b")...), "once")
		require.Equal(t, []int64{1, 10, 5}, integers("RL.SLIDE k 10 60 ONCE a")[:3], "the first answer")
		require.Equal(t, []int64{1, 10, 8}, integers("RL.SLIDE k 10 60 COST 0")[:3])
	})
}

// TestRequestsWithoutCostHoldNothing sends requests with COST 0, whose ids stay unknown.
func TestRequestsWithoutCostHoldNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for _, line := range []string{"RL.RESERVE k 10 60 COST 0 ID a", "RL.SLIDE k 10 60 COST 0 ONCE a", "RL.ACQUIRE k 10 ID a COST 0", "RL.ACQUIRE k 10 ID a COST 0 CONN"} {
			require.Equal(t, []any{int64(1), int64(10), int64(10), int64(0), int64(0)}, c.do(t, words(line)...), line)
		}
		require.Equal(t, []any{int64(0), int64(0), int64(0)}, c.do(t, "RL.SETTLE", "k", "a", 0))
		require.EqualValues(t, 0, c.do(t, "RL.RENEW", "k", "a"))
		require.EqualValues(t, 0, c.do(t, "RL.RELEASE", "k", "a"))
		require.Equal(t, []any{}, c.do(t, "RL.INSPECT", "k"))
	})
}

// TestLoweredSlotsKeepLeases lowers the number of slots below the number of held ones. The leases last.
func TestLoweredSlotsKeepLeases(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for _, id := range []string{"a", "b", "c"} {
			require.EqualValues(t, 1, c.do(t, "RL.ACQUIRE", "k", 3, "ID", id).([]any)[0])
		}
		first := func(line string) []any { return c.do(t, words(line)...).([]any)[:3] }
		require.Equal(t, []any{int64(0), int64(1), int64(0)}, first("RL.ACQUIRE k 1 ID d"))
		require.Equal(t, []any{int64(1), int64(1), int64(0)}, first("RL.ACQUIRE k 1 ID a"), "it renews what it holds")
		require.EqualValues(t, 1, c.do(t, "RL.RENEW", "k", "b"))
		require.EqualValues(t, 2, c.do(t, "RL.RELEASE", "k", "a", "b"))
		require.Equal(t, []any{int64(0), int64(1), int64(0)}, first("RL.ACQUIRE k 1 ID d"))
		require.Equal(t, []any{int64(1), int64(2), int64(0)}, first("RL.ACQUIRE k 2 ID d"))
		require.EqualValues(t, 2, c.do(t, "RL.RELEASE", "k", "c", "d"))
		require.EqualValues(t, 0, c.do(t, "RL.RENEW", "k", "c"), "what has ended stays ended")
	})
}

// TestHoldsByPolicyWhereverTheStateIs holds and settles units by a policy of each algorithm.
func TestHoldsByPolicyWhereverTheStateIs(t *testing.T) {
	t.Parallel()
	wherever(t, func(t *testing.T, p *proxy, _ []*redistest.Server) {
		for _, policy := range []string{"slide", "counter", "fixed"} {
			dial(t, p.addr).holdAndSettle(t, policy, func() {})
		}
	}, holdable...)
}

// TestHoldsMoveWithTheirSlot holds units, moves the slot of their key to another master, and settles them there.
func TestHoldsMoveWithTheirSlot(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 2, nil)
	p := startProxy(t, append([]string{"--backend", cluster.URL(), "--backend-timeout", "10000"}, holdable...)...)
	for _, policy := range []string{"slide", "counter", "fixed"} {
		dial(t, p.addr).holdAndSettle(t, policy, func() {
			slot, err := strconv.Atoi(cluster.Nodes[0].Do("CLUSTER", "KEYSLOT", "rl:{"+policy+":k}"))
			require.NoError(t, err)
			from := cluster.Master(slot)
			cluster.Move(slot, from, 1-from, func() {})
		})
	}
	p.stop(t)
}

// holdable are policies by which units can be held, each of 10 units a day.
var holdable = []string{
	"--policy", "slide", "SLIDE", "10", "24h", "--policy", "counter", "COUNTER", "10", "24h", "BUCKETS", "4", "--policy", "fixed", "FIXED", "10", "24h",
}

// holdAndSettle holds 4 units of a key and settles 1, and does something between.
func (c *conn) holdAndSettle(t *testing.T, policy string, between func()) {
	t.Helper()
	eventually(t, "the node's decision", func() bool { return c.decide(t, "RL.CHECK "+policy+" k COST 0").remaining == 10 })
	first := c.decide(t, "RL.HOLD "+policy+" k COST 4 ID a TTL 1h")
	require.Equal(t, []int64{1, 10, 6}, []int64{first.allowed, first.limit, first.remaining}, policy)
	between()
	require.Equal(t, int64(6), c.decide(t, "RL.HOLD "+policy+" k COST 4 ID a TTL 1h").remaining, "asked again")
	require.Zero(t, c.decide(t, "RL.HOLD "+policy+" k COST 7 ID b").allowed)
	require.Equal(t, int64(0), c.decide(t, "RL.CHECK "+policy+" k COST 6").remaining)
	used, held := c.usage(t, policy+":k")
	require.Equal(t, [2]int64{6, 4}, [2]int64{used, held}, policy)
	for range 2 { // asked again, too
		require.Equal(t, []any{int64(1), int64(1), int64(3)}, c.do(t, "RL.SETTLE", policy+":k", "a", 1))
	}
	require.Equal(t, []any{int64(0), int64(0), int64(0)}, c.do(t, "RL.SETTLE", policy+":k", "b", 1), "it was denied")
	used, held = c.usage(t, policy+":k")
	require.Equal(t, [2]int64{7, 0}, [2]int64{used, held}, policy)
	require.Equal(t, int64(0), c.decide(t, "RL.CHECK "+policy+" k COST 3").remaining)
}
