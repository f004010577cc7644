package backend

import (
	"cmp"
	"context"
	"slices"

	"github.com/rlproxy/rlproxy/shard"
)

// askCluster asks members of the cluster in turn which master serves which slots, and returns the answer as a topology.
func (w *watcher) askCluster(ctx context.Context, b *backend, now *Topology) (*Topology, error) {
	ranges, err := w.slotRanges(ctx, b, now)
	if err != nil {
		return nil, err
	}
	open := func(addr string) *Node { return w.fleet.node(b, addr) }
	if next := clusterTopology(ranges, open, w.unserved); next != nil {
		return next, nil
	}
	return nil, errNoAnswer
}

// clusterTopology builds a topology from the ranges of slots that a node listed. open returns the
// node at an address, or nil if there are too many nodes. unserved stands for the master
// of slots that no node serves. clusterTopology returns nil if no slot is served.
func clusterTopology(ranges []slotRange, open func(addr string) *Node, unserved *Node) *Topology {
	// Members list the ranges in different orders, which must not change the topology.
	slices.SortStableFunc(ranges, func(a, b slotRange) int { return cmp.Compare(a.start, b.start) })
	next := &Topology{slots: new([shard.Slots]uint16)}
	var served [shard.Slots]bool
	index := map[*Node]int{}
	for _, r := range ranges {
		if r.master == "" || r.start < 0 || r.start > r.end || r.end >= shard.Slots {
			continue
		}
		n := open(r.master)
		if n == nil {
			continue
		}
		at, seen := index[n]
		if !seen {
			at = len(next.Nodes)
			index[n] = at
			next.Nodes = append(next.Nodes, n)
		}
		for s := r.start; s <= r.end; s++ {
			next.slots[s], served[s] = uint16(at), true // #nosec G115 -- at most maxNodes
		}
	}
	if len(next.Nodes) == 0 {
		return nil
	}
	if slices.Contains(served[:], false) {
		absent := len(next.Nodes)
		next.Nodes = append(next.Nodes, unserved)
		for s := range served {
			if !served[s] {
				next.slots[s] = uint16(absent) // #nosec G115 -- as above
			}
		}
	}
	return next
}

// slotRanges asks the nodes of the topology that are up, then the seeds, until one answers.
// After a failover some nodes know less than others for a while. So while a node is not up,
// the watcher asks again soon, beginning with another node.
func (w *watcher) slotRanges(ctx context.Context, b *backend, now *Topology) ([]slotRange, error) {
	var failures []error
	for i := range now.Nodes {
		n := now.Nodes[(w.turn+i)%len(now.Nodes)]
		if n.Health() != Up {
			continue
		}
		ranges, err := w.askSlots(ctx, n.client, n.addr)
		if err == nil {
			return ranges, nil
		}
		failures = append(failures, err)
	}
	for i := range b.seeds {
		seed := b.seeds[(w.turn+i)%len(b.seeds)]
		ranges, err := w.askSlots(ctx, w.client(b, seed), seed)
		if err == nil {
			return ranges, nil
		}
		failures = append(failures, err)
	}
	return nil, noAnswer(failures)
}
