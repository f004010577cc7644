package backend

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rlproxy/rlproxy/shard"
)

// Topology holds the nodes in use and places keys on them. It is immutable.
type Topology struct {
	Nodes     []*Node              // at least one; must not be modified
	placement *shard.Placement     // places keys by the backends' names; nil for a cluster
	slots     *[shard.Slots]uint16 // the index in Nodes of each slot's master; nil without a cluster
}

// Locate returns the index in Nodes of the node that holds a shard of the named key. Shard 0 is
// the key's home. Without a cluster, a key and its shadow are on the same nodes.
func (t *Topology) Locate(name []byte, number int) int {
	switch {
	case t.slots != nil:
		var buf [256]byte
		return int(t.slots[shard.Slot(shard.AppendStoredKey(buf[:0], name, number))])
	case len(t.Nodes) == 1:
		return 0
	}
	key, _ := shard.ClientKey(name)
	if number == 0 {
		return t.placement.Home(key)
	}
	var buf [16]int
	return t.placement.Order(key, buf[:0])[number%len(t.Nodes)]
}

// LocateStored returns the index in Nodes of the node that holds a stored key, and the key's
// slot in a cluster. Keys with the same hash tag are on the same node, even without a cluster.
func (t *Topology) LocateStored(key []byte) (node int, slot uint16) {
	switch {
	case t.slots != nil:
		slot = uint16(shard.Slot(key)) // #nosec G115 -- 14 bits
		return int(t.slots[slot]), slot
	case len(t.Nodes) == 1:
		return 0, 0
	}
	return t.placement.Home(shard.Tag(key)), 0
}

// Spread returns the numbers of n shards of the named key, on as many different nodes as
// possible. The first is 0, the home.
func (t *Topology) Spread(name []byte, n int) []int {
	if t.slots != nil {
		return shard.Spread(nil, name, n, len(t.Nodes), func(slot int) int { return int(t.slots[slot]) })
	}
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// Clustered reports whether the nodes are masters of a Redis Cluster.
func (t *Topology) Clustered() bool { return t.slots != nil }

// Names returns the names by which keys are placed, in the order of Nodes. It returns nil for a
// Redis Cluster, where keys are placed by slots. The caller must not modify the slice.
func (t *Topology) Names() []string {
	if t.placement == nil {
		return nil
	}
	return t.placement.Names()
}

// Places returns for each node by what keys are placed on it, as text in the order of which all proxies agree: its name
// or, in a Redis Cluster, its first slot and a checksum of which slots have the same node.
func (t *Topology) Places() []string {
	if t.slots == nil {
		return t.Names()
	}
	first := make([]int, len(t.Nodes))
	for slot := len(t.slots) - 1; slot >= 0; slot-- {
		first[t.slots[slot]] = slot
	}
	var groups []byte
	for _, node := range t.slots {
		groups = binary.BigEndian.AppendUint16(groups, uint16(first[node])) // #nosec G115 -- 14 bits
	}
	places := make([]string, len(t.Nodes))
	for i := range places {
		places[i] = fmt.Sprintf("%05d.%x", first[i], crc32.ChecksumIEEE(groups))
	}
	return places
}

func (t *Topology) equal(o *Topology) bool {
	if !slices.Equal(t.Nodes, o.Nodes) || t.placement != o.placement || (t.slots == nil) != (o.slots == nil) {
		return false
	}
	return t.slots == nil || t.slots == o.slots || *t.slots == *o.slots
}

// Queues has a queue of type Q for each node that is in use or that others redirect to. A user of the fleet has one.
// Its zero value must get its fields.
type Queues[Q interface{ Close() error }] struct {
	Fleet *Fleet

	// OpenQueue opens the queue of a node that is new. It is called with a lock held.
	OpenQueue func(*Node) Q

	current atomic.Pointer[Lanes[Q]] // the last result of OpenAll
	mu      sync.Mutex
	byNode  map[*Node]Q // guarded by mu
}

// Lanes is a topology with the queues of its nodes. It is immutable.
type Lanes[Q any] struct {
	*Topology
	Queues []Q // by index in Topology.Nodes
}

// OpenAll returns the topology with its queues, and opens those of nodes that are new. While nothing changes it
// returns the same pointer.
func (q *Queues[Q]) OpenAll() *Lanes[Q] {
	now := q.Fleet.Topology()
	if l := q.current.Load(); l != nil && l.Topology == now {
		return l
	}
	l := &Lanes[Q]{Topology: now}
	for _, n := range now.Nodes {
		l.Queues = append(l.Queues, q.Of(n))
	}
	q.current.Store(l)
	return l
}

// Of returns the queue of a node, opened if it is new. It is closed before the node's client is.
func (q *Queues[Q]) Of(n *Node) Q {
	q.mu.Lock()
	of, known := q.byNode[n]
	if !known {
		if q.byNode == nil {
			q.byNode = make(map[*Node]Q)
		}
		of = q.OpenQueue(n)
		q.byNode[n] = of
	}
	q.mu.Unlock()
	if !known {
		n.OnClose(func() error { // not with the lock held: it may run now
			q.mu.Lock()
			delete(q.byNode, n)
			q.mu.Unlock()
			return of.Close()
		})
	}
	return of
}

// Find returns the queue of a node, if it has one.
func (q *Queues[Q]) Find(n *Node) (of Q, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	of, ok = q.byNode[n]
	return of, ok
}

// Close closes all queues.
func (q *Queues[Q]) Close() error {
	q.mu.Lock()
	all := slices.Collect(maps.Values(q.byNode))
	q.mu.Unlock()
	var errs []error
	for _, of := range all {
		errs = append(errs, of.Close())
	}
	return errors.Join(errs...)
}
