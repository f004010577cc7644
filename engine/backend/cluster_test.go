package backend

import (
	"testing"

	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

func slots(start, end int, master string) slotRange { return slotRange{start, end, master} }

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

func TestClusterTopologyDoesNotDependOnTheOrderOfRanges(t *testing.T) {
	open, unserved := opener(), &Node{name: "unserved"}
	a := clusterTopology([]slotRange{slots(0, 99, "a:1"), slots(100, 16383, "b:1"), slots(50, 60, "b:1")}, open, unserved)
	b := clusterTopology([]slotRange{slots(100, 16383, "b:1"), slots(50, 60, "b:1"), slots(0, 99, "a:1")}, open, unserved)
	require.True(t, a.equal(b))
	require.Len(t, a.Nodes, 2)
	require.Equal(t, "a:1", a.Nodes[a.slots[49]].name)
	require.Equal(t, "b:1", a.Nodes[a.slots[50]].name)
	require.Equal(t, "a:1", a.Nodes[a.slots[61]].name)
	require.Equal(t, "b:1", a.Nodes[a.slots[16383]].name)

	c := clusterTopology([]slotRange{slots(0, 99, "a:1"), slots(101, 16383, "b:1")}, open, unserved)
	require.False(t, a.equal(c))
	require.Len(t, c.Nodes, 3)
	require.Same(t, unserved, c.Nodes[c.slots[100]])
}

func TestClusterTopologyIgnoresInvalidRanges(t *testing.T) {
	open, unserved := opener(), &Node{name: "unserved"}
	for _, nonsense := range [][]slotRange{
		nil, {slots(-5, 10, "a:1")}, {slots(0, 16384, "a:1")}, {slots(9, 3, "a:1")}, {slots(0, 10, "")},
	} {
		require.Nil(t, clusterTopology(nonsense, open, unserved))
		some := clusterTopology(append(nonsense, slots(7, 7, "b:1")), open, unserved)
		require.Len(t, some.Nodes, 2)
		for s := range shard.Slots {
			require.Equal(t, s == 7, some.Nodes[some.slots[s]] != unserved)
		}
	}
}
