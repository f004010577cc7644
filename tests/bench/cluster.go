package main

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// masters is how many nodes our Redis Cluster has, none of them a replica.
const masters = 3

// openCluster starts a Redis Cluster and rlproxy on it.
func (l *lab) openCluster() error {
	create := []string{"--cluster", "create"}
	for i := range masters {
		bus, err := freeport.Take()
		if err != nil {
			return err
		}
		s, err := l.redis(nil, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(bus),
			"--cluster-config-file", fmt.Sprintf("nodes-%d.conf", i))
		if err != nil {
			return err
		}
		l.cluster = append(l.cluster, s)
		create = append(create, s.address())
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
	l.clustered, err = l.rlproxy("--backend", "redis+cluster://"+strings.Join(create[2:], ","))
	return err
}

// joined waits until a node knows that the cluster is whole.
func (l *lab) joined(s *server) error {
	for range 2000 {
		info, err := traffic.Ask(s.address(), "CLUSTER", "INFO")
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
	return fmt.Errorf("the cluster is not whole on port %d", s.port)
}

// clusterCase compares with a load generator that finds each key's node itself. It
// makes keys of its own kind: all that it sends to one node lie in one slot, and it
// draws random numbers for each node anew. Neither side can be filled key by key, so
// both are warmed with as many random requests.
func (l *lab) clusterCase(q algorithm, keys int) comparison {
	cold := asked{q, manyKeys, 100, 60_000}
	b := load{
		target:  target{fronts: []*server{l.clustered}, proxied: true, nodes: l.cluster},
		command: cold.proxied(), keys: keys, clients: clients, depth: 16, random: 3 * keys,
	}
	a := b
	a.target, a.keys, a.cluster = target{fronts: l.cluster[:1], nodes: l.cluster}, keys/masters, true
	cold.key = "k:{tag}:" + traffic.Variable
	return comparison{decisions, q.command + ", Redis Cluster, 3 masters, cold keys", cold.directs(l, a), b, []*figure{byRate, byNodeCPU}, nil}
}
