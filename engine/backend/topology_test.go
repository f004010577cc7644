package backend

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/shard"
)

// clients returns keys, some of which end in a mark as names do.
func clients() (keys [][]byte) {
	for i := range 300 {
		key := fmt.Appendf(nil, "tenant:%d", i)
		keys = append(keys, key, append(key[:len(key):len(key)], "\xffs"...), append(key[:len(key):len(key)], "\xffk"...))
	}
	return keys
}

// On a list of nodes, the client's key decides the placement, not its name: a shadow is on the
// same nodes as its key.
func TestMarksOfNamesDoNotChangeThePlacement(t *testing.T) {
	names := []string{"a:1/0", "b:1/0", "c:1/0"}
	top := &Topology{Nodes: []*Node{{}, {}, {}}, placement: shard.NewPlacement(names)}
	for _, key := range clients() {
		for _, shadow := range []bool{false, true} {
			name := shard.AppendName(nil, key, shadow)
			require.Equal(t, top.placement.Home(key), top.Locate(name, 0), "%q", name)
			require.Equal(t, top.placement.Order(key, nil)[2], top.Locate(name, 5), "%q", name)
		}
		node, _ := top.LocateStored(key)
		require.Equal(t, top.placement.Home(key), node, "a key without a hash tag, %q", key)
	}
}

func TestShadowsAreInTheSlotsOfTheirStoredKeys(t *testing.T) {
	open := opener()
	top := clusterTopology([]slotRange{slots(0, 8191, "a:1"), slots(8192, 16383, "b:1")}, open, open("unserved"))
	apart := 0
	for _, key := range clients() {
		name := shard.AppendName(nil, key, true)
		for _, number := range []int{0, 3} {
			stored := shard.AppendStoredKey(nil, name, number)
			node, _ := top.LocateStored(stored)
			require.Equal(t, node, top.Locate(name, number), "%q", stored)
		}
		if top.Locate(name, 0) != top.Locate(shard.AppendName(nil, key, false), 0) {
			apart++
		}
		require.ElementsMatch(t, []int{0, 1}, []int{top.Locate(name, top.Spread(name, 2)[0]), top.Locate(name, top.Spread(name, 2)[1])})
	}
	require.Positive(t, apart, "a shadow's slot is its own")
}
