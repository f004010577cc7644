package shard

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Every node comes first for an equal share of the keys, and second for an equal share. A
// skewed mixer would show as a chi-square far above its number of degrees of freedom.
func TestKeysAreBalancedOverNodes(t *testing.T) {
	const keys = 20_000
	for _, size := range []int{2, 3, 4, 7, 16} {
		nodes := NewPlacement(nodeNames(size))
		var rank [2][16]int
		var order []int
		for i := range keys {
			order = nodes.Order(testKey(i), order[:0])
			rank[0][order[0]]++
			rank[1][order[1]]++
		}
		for r := range rank {
			want, chi := float64(keys)/float64(size), 0.0
			for _, got := range rank[r][:size] {
				chi += (float64(got) - want) * (float64(got) - want) / want
			}
			require.Less(t, chi, float64(size-1)+6*float64(size), "%d nodes, rank %d", size, r)
		}
	}
}

// All pairs of first and second node are equally frequent. So the keys of a removed node are
// shared by all others, and the shards of split keys spread evenly.
func TestPairsOfNodesAreBalanced(t *testing.T) {
	const keys, size = 40_000, 5
	nodes := NewPlacement(nodeNames(size))
	var pairs [size][size]int
	var order []int
	for i := range keys {
		order = nodes.Order(testKey(i), order[:0])
		pairs[order[0]][order[1]]++
	}
	want := float64(keys) / (size * (size - 1))
	for i := range size {
		for j := range size {
			if i != j {
				require.InDelta(t, want, float64(pairs[i][j]), want*0.12, "first %d, second %d", i, j)
			}
		}
	}
}

// The case of a node's name does not matter. Of two nodes with the same name, the second gets no keys.
func TestNodesWithTheSameNameHaveTheirOrder(t *testing.T) {
	nodes := NewPlacement([]string{"a:1", "A:1"})
	for i := range 10 {
		require.Zero(t, nodes.Home(testKey(i)))
		require.Equal(t, []int{0, 1}, nodes.Order(testKey(i), nil))
	}
}

func TestAddingANodeMovesFewKeys(t *testing.T) {
	const keys = 20_000
	for _, size := range []int{1, 3, 8} {
		before, after := NewPlacement(nodeNames(size)), NewPlacement(nodeNames(size+1))
		moved := 0
		for i := range keys {
			was, is := before.Home(testKey(i)), after.Home(testKey(i))
			if was != is {
				require.Equal(t, size, is, "a key may move only to the new node")
				moved++
			}
		}
		want := float64(keys) / float64(size+1)
		require.InDelta(t, want, float64(moved), want*0.08)
	}
}

func TestOrderBeginsWithTheHome(t *testing.T) {
	names := nodeNames(6)
	nodes := NewPlacement(names)
	require.Equal(t, 6, len(nodes.Names()))
	for i := range 200 {
		order := nodes.Order(testKey(i), []int{99})
		require.Equal(t, 99, order[0], "Order appends")
		order = order[1:]
		require.ElementsMatch(t, []int{0, 1, 2, 3, 4, 5}, order)
		require.Equal(t, nodes.Home(testKey(i)), order[0])

		// Without the home the second node is the home.
		left := append(append([]string{}, names[:order[0]]...), names[order[0]+1:]...)
		require.Equal(t, names[order[1]], left[NewPlacement(left).Home(testKey(i))])
	}
}

// Neither the order of the list nor the case of the names changes the placement.
func TestPlacementIgnoresTheOrderAndCaseOfNames(t *testing.T) {
	a := []string{"Alpha:1/0", "beta:1/0", "gamma:1/0"}
	b := []string{"GAMMA:1/0", "alpha:1/0", "Beta:1/0"}
	toB := []int{1, 2, 0}
	na, nb := NewPlacement(a), NewPlacement(b)
	for i := range 500 {
		require.Equal(t, toB[na.Home(testKey(i))], nb.Home(testKey(i)))
	}
}

// Placement must not change between versions: if this test fails, running systems would lose
// their counts to other nodes.
func TestPlacementStaysTheSameBetweenVersions(t *testing.T) {
	nodes := NewPlacement(nodeNames(5))
	for key, want := range map[string][]int{
		"":         {0, 4, 3, 1, 2},
		"a":        {4, 2, 1, 0, 3},
		"tenant:1": {1, 2, 3, 4, 0},
		"tenant:2": {1, 4, 0, 2, 3},
		"\x00\xff": {2, 0, 4, 1, 3},
	} {
		require.Equal(t, want, nodes.Order([]byte(key), nil), "key %q", key)
	}
}

func TestPlacementAllocatesNothing(t *testing.T) {
	nodes, key, dst := NewPlacement(nodeNames(16)), testKey(1), make([]int, 0, 16)
	require.Zero(t, testing.AllocsPerRun(100, func() { nodes.Home(key) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { dst = nodes.Order(key, dst[:0]) }))
}

func BenchmarkHome16(b *testing.B) {
	nodes, key := NewPlacement(nodeNames(16)), testKey(1)
	for b.Loop() {
		nodes.Home(key)
	}
}
