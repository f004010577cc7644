package engine

import (
	"context"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/shard"
)

// cluster asks members of the cluster, one after the other, which master serves
// which slots, and fills in next.
func (f *finder) cluster(ctx context.Context, b *backend, next *topology) error {
	slots, err := f.askCluster(ctx, b)
	if err != nil {
		return err
	}
	table := new([shard.Slots]uint16)
	for i := range table {
		table[i] = notServed
	}
	index := map[string]int{}
	for _, r := range slots {
		if len(r.Nodes) == 0 || r.Start < 0 || r.End >= shard.Slots {
			continue
		}
		addr := r.Nodes[0].Addr
		at, seen := index[addr]
		if !seen {
			at = len(next.nodes)
			index[addr] = at
			next.nodes = append(next.nodes, f.node(b, addr))
		}
		for s := r.Start; s <= r.End; s++ {
			table[s] = uint16(at) // #nosec G115 -- a cluster has at most 16384 masters
		}
	}
	if len(next.nodes) == 0 {
		return errNobodyKnows
	}
	if nobody := len(next.nodes); served(table) < shard.Slots {
		next.nodes = append(next.nodes, absentNode(f.e, b.seeds[0], "no node serves the key's slot"))
		for s := range table {
			if table[s] == notServed {
				table[s] = uint16(nobody) // #nosec G115 -- as above
			}
		}
	}
	next.slots = table
	return nil
}

// notServed marks a slot that no master was named for.
const notServed = 1<<16 - 1

func served(table *[shard.Slots]uint16) (n int) {
	for _, at := range table {
		if at != notServed {
			n++
		}
	}
	return n
}

// askCluster asks nodes in use that are well, in turn, then the seeds. Nodes differ
// in what they know for a while after a failover; those who know less are put right
// at the next question, which trouble brings soon.
func (f *finder) askCluster(ctx context.Context, b *backend) ([]redis.ClusterSlot, error) {
	nodes := f.e.topology.Load().nodes
	for i := range nodes {
		n := nodes[(f.turn+i)%len(nodes)]
		if n.client == nil || n.health.state.Load() > 0 {
			continue
		}
		if slots, err := f.slotsOf(ctx, n.client, n.name); err == nil {
			return slots, nil
		}
	}
	for i := range b.seeds {
		seed := b.seeds[(f.turn+i)%len(b.seeds)]
		if slots, err := f.slotsOf(ctx, f.client(b, seed), seed); err == nil {
			return slots, nil
		}
	}
	return nil, errNobodyKnows
}

func (f *finder) slotsOf(ctx context.Context, client *redis.Client, asked string) ([]redis.ClusterSlot, error) {
	ctx, cancel := f.within(ctx)
	defer cancel()
	// CLUSTER SHARDS does not say which master serves a slot during a failover.
	cmd := redis.NewClusterSlotsCmd(ctx, "cluster", "slots")
	_ = client.Process(ctx, cmd) // the error is the command's
	slots, err := cmd.Result()
	if err != nil {
		return nil, err
	}
	for _, s := range slots {
		for i := range s.Nodes {
			s.Nodes[i].Addr = fullAddress(s.Nodes[i].Addr, asked)
		}
	}
	return slots, nil
}

// fullAddress puts the host of the node that was asked in place of one left out,
// which means the same.
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
