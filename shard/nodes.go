package shard

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Nodes places keys on a list of nodes by rendezvous hashing: every node has a
// score for every key, and the key lies on the node with the highest. A node more
// takes 1/n of the keys, each from the node that had it; no other key moves, and
// the order in which nodes are listed does not matter.
type Nodes struct {
	seeds []uint64 // one a node: the hash of its name
}

// NewNodes prepares placement on the named nodes. A name is the node's host:port/db,
// in any case. The names should differ: of two that are equal the second gets no key.
func NewNodes(names []string) *Nodes {
	n := &Nodes{seeds: make([]uint64, len(names))}
	for i, name := range names {
		n.seeds[i] = xxhash.Sum64String(strings.ToLower(name))
	}
	return n
}

// Len returns the number of nodes.
func (n *Nodes) Len() int { return len(n.seeds) }

// Home returns the index of the node that the key lies on. There must be one.
func (n *Nodes) Home(key []byte) int {
	hash := xxhash.Sum64(key)
	home, best := 0, uint64(0)
	for i, seed := range n.seeds {
		if s := score(hash, seed); s > best {
			home, best = i, s
		}
	}
	return home
}

// Order appends to dst the indexes of all nodes, the key's home first, then the
// node that would be its home if the ones before were not there. Part i of a split
// key lies on the i-th of them, counted round.
func (n *Nodes) Order(key []byte, dst []int) []int {
	hash, from := xxhash.Sum64(key), len(dst)
	for i := range n.seeds {
		dst = append(dst, i)
	}
	slices.SortStableFunc(dst[from:], func(a, b int) int {
		sa, sb := score(hash, n.seeds[a]), score(hash, n.seeds[b])
		switch {
		case sa > sb:
			return -1
		case sa < sb:
			return 1
		}
		return 0
	})
	return dst
}

// score mixes a key's hash with a node's seed. Both are good hashes already; two
// rounds of multiply and fold keep their exclusive or from showing in the order:
// with one round, keys whose hashes differ in a few bits rank the nodes alike.
func score(hash, seed uint64) uint64 {
	hi, lo := bits.Mul64(hash^seed, 0x9E3779B97F4A7C15)
	hi, lo = bits.Mul64(hi^lo^seed, 0xD6E8FEB86659FD93)
	return hi ^ lo
}
