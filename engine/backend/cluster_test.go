package backend

import (
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

func slots(start, end int, addrs ...string) redis.ClusterSlot {
	s := redis.ClusterSlot{Start: start, End: end}
	for _, addr := range addrs {
		s.Nodes = append(s.Nodes, redis.ClusterNode{Addr: addr})
	}
	return s
}

// opener returns a function that makes nodes, always the same one for an address.
func opener() func(string) *Node {
	known := map[string]*Node{}
	return func(addr string) *Node {
		if addr == "" {
			return nil
		}
		if known[addr] == nil {
			known[addr] = &Node{name: addr}
		}
		return known[addr]
	}
}

// The first node of a range is its master.
func TestClusterTopologyDoesNotDependOnTheOrderOfRanges(t *testing.T) {
	open, unserved := opener(), &Node{name: "unserved"}
	a := clusterTopology([]redis.ClusterSlot{slots(0, 99, "a:1", "c:1"), slots(100, 16383, "b:1"), slots(50, 60, "b:1")}, open, unserved)
	b := clusterTopology([]redis.ClusterSlot{slots(100, 16383, "b:1"), slots(50, 60, "b:1"), slots(0, 99, "a:1")}, open, unserved)
	require.True(t, a.equal(b))
	require.Len(t, a.Nodes, 2)
	require.Equal(t, "a:1", a.Nodes[a.slots[49]].name)
	require.Equal(t, "b:1", a.Nodes[a.slots[50]].name)
	require.Equal(t, "a:1", a.Nodes[a.slots[61]].name)
	require.Equal(t, "b:1", a.Nodes[a.slots[16383]].name)

	c := clusterTopology([]redis.ClusterSlot{slots(0, 99, "a:1"), slots(101, 16383, "b:1")}, open, unserved)
	require.False(t, a.equal(c))
	require.Len(t, c.Nodes, 3)
	require.Same(t, unserved, c.Nodes[c.slots[100]])
}

func TestClusterTopologyIgnoresInvalidRanges(t *testing.T) {
	open, unserved := opener(), &Node{name: "unserved"}
	for _, nonsense := range [][]redis.ClusterSlot{
		nil, {slots(-5, 10, "a:1")}, {slots(0, 16384, "a:1")}, {slots(9, 3, "a:1")}, {slots(0, 10)}, {slots(0, 10, "")},
	} {
		require.Nil(t, clusterTopology(nonsense, open, unserved))
		some := clusterTopology(append(nonsense, slots(7, 7, "b:1")), open, unserved)
		require.Len(t, some.Nodes, 2)
		for s := range shard.Slots {
			require.Equal(t, s == 7, some.Nodes[some.slots[s]] != unserved)
		}
	}
}

func TestFullAddressFillsInAMissingHost(t *testing.T) {
	for _, row := range [][3]string{
		{"h:1", "a:2", "h:1"}, {":1", "a:2", "a:1"}, {"?:1", "a:2", "a:1"}, {"nonsense", "a:2", "nonsense"}, {":1", "nonsense", ":1"},
	} {
		require.Equal(t, row[2], fullAddress(row[0], row[1]))
	}
}
