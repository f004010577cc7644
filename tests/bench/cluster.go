package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// masters is the number of nodes of the Redis Cluster. None of them is a replica.
const masters = 3

// openCluster starts a Redis Cluster and rlproxy on it.
func (l *lab) openCluster() error {
	create := []string{"--cluster", "create"}
	for i := range masters {
		bus, err := freeport.Take()
		if err != nil {
			return err
		}
		s, err := l.Redis(nil, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i))
		if err != nil {
			return err
		}
		l.cluster = append(l.cluster, s)
		create = append(create, s.Address())
	}
	out, err := exec.CommandContext(l.ctx, "redis-cli", append(create, "--cluster-yes")...).CombinedOutput() // #nosec G204 -- our own
	if err != nil {
		return fmt.Errorf("creating a cluster: %w: %s", err, out)
	}
	for _, s := range l.cluster {
		if err := l.joined(s); err != nil {
			return err
		}
	}
	l.clustered, err = l.RLProxy("--advance", "no", "--backend", "redis+cluster://"+strings.Join(create[2:], ","))
	return err
}

// joined waits until a node knows that the cluster is complete.
func (l *lab) joined(s *testbed.Server) error {
	for range 2000 {
		info, err := traffic.Ask(s.Address(), "CLUSTER", "INFO")
		if err != nil {
			return err
		}
		if strings.Contains(info, "cluster_state:ok") {
			return nil
		}
		select {
		case <-l.ctx.Done():
			return l.ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("the node on port %d does not know that the cluster is complete", s.Port)
}

// clusterCase compares rlproxy with a load generator that finds the node of each key itself. All keys that the generator
// sends to one node are in one slot, and it chooses random keys for each node separately. So neither side can be
// filled key by key, and both are warmed up with the same number of random requests.
func (l *lab) clusterCase(q algorithm, keys int) comparison {
	cold := asked{q, manyKeys, 100, 60_000}
	b := load{
		target:  target{fronts: []*testbed.Server{l.clustered}, proxied: true, nodes: l.cluster},
		command: cold.proxied(), keys: keys, clients: clients, depth: 16, random: 3 * keys,
	}
	a := b
	a.target, a.keys, a.cluster = target{fronts: l.cluster[:1], nodes: l.cluster}, keys/masters, true
	cold.key = "k:{tag}:" + traffic.Variable
	return comparison{decisions, q.command + ", Redis Cluster, 3 masters, cold keys", cold.directs(l, a), b, []*figure{byRate, byNodeCPU}, nil}
}
