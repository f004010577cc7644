package backend

import (
	"cmp"
	"context"
	"net"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
)

// askCluster asks members of the cluster in turn which master serves which slots, and
// returns the answer as a topology.
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

// clusterTopology builds a topology from the reply to CLUSTER SLOTS. open returns the
// node at an address, or nil if there are too many nodes. unserved stands for the master
// of slots that no node serves. clusterTopology returns nil if no slot is served.
func clusterTopology(ranges []redis.ClusterSlot, open func(addr string) *Node, unserved *Node) *Topology {
	// Members list the ranges in different orders, which must not change the topology.
	slices.SortStableFunc(ranges, func(a, b redis.ClusterSlot) int { return cmp.Compare(a.Start, b.Start) })
	next := &Topology{slots: new([shard.Slots]uint16)}
	var served [shard.Slots]bool
	index := map[*Node]int{}
	for _, r := range ranges {
		if len(r.Nodes) == 0 || r.Start < 0 || r.Start > r.End || r.End >= shard.Slots {
			continue
		}
		n := open(r.Nodes[0].Addr)
		if n == nil {
			continue
		}
		at, seen := index[n]
		if !seen {
			at = len(next.Nodes)
			index[n] = at
			next.Nodes = append(next.Nodes, n)
		}
		for s := r.Start; s <= r.End; s++ {
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
func (w *watcher) slotRanges(ctx context.Context, b *backend, now *Topology) ([]redis.ClusterSlot, error) {
	var failures []error
	for i := range now.Nodes {
		n := now.Nodes[(w.turn+i)%len(now.Nodes)]
		if n.State() != Up {
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

func (w *watcher) askSlots(ctx context.Context, client *redis.Client, asked string) ([]redis.ClusterSlot, error) {
	ctx, cancel := w.within(ctx)
	defer cancel()
	// CLUSTER SHARDS does not say which master serves a slot during a failover.
	cmd := redis.NewClusterSlotsCmd(ctx, "cluster", "slots")
	_ = client.Process(ctx, cmd) // cmd.Result returns the error
	ranges, err := cmd.Result()
	if err != nil {
		return nil, err
	}
	for _, r := range ranges {
		for i := range r.Nodes {
			r.Nodes[i].Addr = fullAddress(r.Nodes[i].Addr, asked)
		}
	}
	return ranges, nil
}

// fullAddress returns addr. If addr has no host, fullAddress inserts the host of asked, the node
// that named addr: this is what Redis means by a missing host.
func fullAddress(addr, asked string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || strings.Trim(host, "?") != "" {
		return addr
	}
	if host, _, err = net.SplitHostPort(asked); err != nil {
		return addr
	}
	return net.JoinHostPort(host, port)
}
