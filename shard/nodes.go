package shard

import (
	"math/bits"
	"slices"
	"strings"

	"github.com/cespare/xxhash/v2"
)

// Placement places keys on nodes by rendezvous hashing: every node has a score for every key, and the key is placed on
// the node with the highest score. Adding the n-th node moves 1/n of the keys, all of them to the new node. The order
// of the list does not matter. The method is highest random weight hashing (Thaler and Ravishankar, "Using Name-Based
// Mappings to Increase Hit Rates", 1998).
type Placement struct {
	names []string
	seeds []uint64 // Hash of each node's name in lower case.
}

// NewPlacement returns the placement on the named nodes. A name is the node's host:port/db, and its case does not
// matter. The names should differ: of two nodes with the same name the second gets no keys.
func NewPlacement(names []string) *Placement {
	n := &Placement{names: slices.Clone(names), seeds: make([]uint64, len(names))}
	for i, name := range names {
		n.seeds[i] = xxhash.Sum64String(strings.ToLower(name))
	}
	return n
}

// Names returns the names of the nodes. The caller must not modify it.
func (n *Placement) Names() []string { return n.names }

// Home returns the index of the key's node. There must be at least one node.
func (n *Placement) Home(key []byte) int {
	hash := xxhash.Sum64(key)
	home, best := 0, uint64(0)
	for i, seed := range n.seeds {
		if s := score(hash, seed); s > best {
			home, best = i, s
		}
	}
	return home
}

// Order appends to dst the indexes of all nodes: the key's home first, then each node that would be the home without
// the nodes before it. Shard i of a split key is placed on node i of this order, modulo the number of nodes.
func (n *Placement) Order(key []byte, dst []int) []int {
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

// score mixes the hash of a key with the seed of a node. It takes two rounds of multiplying and
// folding: after one, keys whose hashes differ in a few bits would rank the nodes alike.
func score(hash, seed uint64) uint64 {
	hi, lo := bits.Mul64(hash^seed, 0x9E3779B97F4A7C15)
	hi, lo = bits.Mul64(hi^lo^seed, 0xD6E8FEB86659FD93)
	return hi ^ lo
}
