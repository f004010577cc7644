package redistest

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Cluster is a running Redis Cluster.
type Cluster struct {
	Nodes []*Server // the masters; with StartReplicated, their replicas follow in the same order
	t     testing.TB
}

// clusterTimeout is the cluster-node-timeout in ms, after which nodes consider another one failed.
const clusterTimeout = 1000

// StartCluster runs a cluster whose masters have equal numbers of slots, and waits until it is up. announce, if not
// nil, returns the port that a node announces to clients, for tests with a proxy in front of each node.
func StartCluster(t testing.TB, masters int, announce func(addr string) int, options ...Option) *Cluster {
	return startCluster(t, masters, masters, announce, options)
}

// StartReplicated runs a cluster in which each master has a replica: node i + masters is the replica of node i.
func StartReplicated(t testing.TB, masters int, options ...Option) *Cluster {
	return startCluster(t, masters, 2*masters, nil, options)
}

func startCluster(t testing.TB, masters, count int, announce func(addr string) int, options []Option) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range count {
		c.Nodes = append(c.Nodes, start(t, options, "--cluster-enabled", "yes",
			"--cluster-port", strconv.Itoa(FreePort(t)), "--cluster-node-timeout", strconv.Itoa(clusterTimeout),
			"--cluster-replica-validity-factor", "0", "--cluster-require-full-coverage", "no",
			"--repl-diskless-sync-delay", "0"))
	}
	if announce != nil {
		for _, n := range c.Nodes {
			n.Do("CONFIG", "SET", "cluster-announce-port", announce(n.Addr))
		}
	}
	first := c.Nodes[0]
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < masters {
			n.Do("CLUSTER", "ADDSLOTSRANGE", 16384*i/masters, 16384*(i+1)/masters-1)
		}
		if i > 0 {
			n.Do("CLUSTER", "MEET", "127.0.0.1", first.Port, c.busPort(first))
		}
	}
	c.await("all nodes know each other", func(n *Server) bool {
		return strings.Contains(n.Do("CLUSTER", "INFO"), fmt.Sprintf("cluster_known_nodes:%d\r", count)) &&
			!strings.Contains(n.Do("CLUSTER", "NODES"), "handshake")
	})
	for i, n := range c.Nodes[masters:] {
		n.Do("CLUSTER", "REPLICATE", c.Nodes[i].Do("CLUSTER", "MYID"))
	}
	c.await("the cluster is up", func(n *Server) bool {
		return strings.Contains(n.Do("CLUSTER", "INFO"), "cluster_state:ok")
	})
	if count > masters {
		c.await("replicas are in sync", func(n *Server) bool {
			info := n.Do("INFO", "replication")
			return strings.Contains(info, "role:master") || strings.Contains(info, "master_link_status:up")
		})
	}
	return c
}

// Announced makes a node of a cluster announce the port that port returns for its
// address instead of its own, for tests with a proxy in front of the node.
func Announced(port func(addr string) int) Option {
	return func(s *Server) {
		s.args = append(s.args, "--cluster-announce-port", strconv.Itoa(port(s.Addr)))
	}
}

// URL returns the cluster's URL as a backend, with TLS if its nodes have it.
func (c *Cluster) URL() string {
	scheme := "redis+cluster://"
	var addrs []string
	for _, n := range c.Nodes {
		addr := n.Addr
		if n.Secure != "" {
			scheme, addr = "rediss+cluster://", n.Secure
		}
		addrs = append(addrs, addr)
	}
	return scheme + strings.Join(addrs, ",")
}

// busPort returns the port of the cluster bus of a node.
func (c *Cluster) busPort(s *Server) int {
	for i, arg := range s.args {
		if arg == "--cluster-port" {
			port, err := strconv.Atoi(s.args[i+1])
			require.NoError(c.t, err)
			return port
		}
	}
	return 0
}

// await waits until done returns true for all nodes.
func (c *Cluster) await(what string, done func(n *Server) bool) {
	c.t.Helper()
	for _, n := range c.Nodes {
		require.Eventually(c.t, func() bool { return done(n) }, 30*time.Second, 20*time.Millisecond, what)
	}
}

// Slots returns the server's view of which node serves which slots.
func (s *Server) Slots() ([]redis.ClusterSlot, error) {
	cmd := redis.NewClusterSlotsCmd(context.Background(), "cluster", "slots")
	_ = s.Client.Process(context.Background(), cmd) // cmd.Result returns the error
	return cmd.Result()
}

// Master returns the index of the node that serves a slot, according to the first node that answers.
func (c *Cluster) Master(slot int) int {
	c.t.Helper()
	for _, n := range c.Nodes {
		slots, err := n.Slots()
		if err != nil {
			continue
		}
		for _, r := range slots {
			if slot < r.Start || slot > r.End {
				continue
			}
			for i, other := range c.Nodes {
				if strings.HasPrefix(other.Do("CLUSTER", "MYID"), r.Nodes[0].ID) {
					return i
				}
			}
		}
	}
	require.Fail(c.t, "no node serves slot "+strconv.Itoa(slot))
	return -1
}

// Move moves a slot and its keys from one node to another, one key at a time. It calls step after each step.
func (c *Cluster) Move(slot, from, to int, step func()) {
	c.t.Helper()
	c.agree()
	src, dst := c.Nodes[from], c.Nodes[to]
	port := strconv.Itoa(dst.Port)
	if dst.Secure != "" {
		_, port, _ = net.SplitHostPort(dst.Secure) // nodes use TLS with each other too
	}
	srcID, dstID := src.Do("CLUSTER", "MYID"), dst.Do("CLUSTER", "MYID")
	dst.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", srcID)
	src.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", dstID)
	step()
	for {
		keys, err := src.Client.ClusterGetKeysInSlot(context.Background(), slot, 1).Result()
		require.NoError(c.t, err)
		if len(keys) == 0 {
			break
		}
		src.Do("MIGRATE", "127.0.0.1", port, keys[0], 0, 5000)
		step()
	}
	dst.Do("CLUSTER", "SETSLOT", slot, "NODE", dstID)
	step()
	src.Do("CLUSTER", "SETSLOT", slot, "NODE", dstID)
	for _, n := range c.Nodes {
		_, _ = n.Ask("CLUSTER", "SETSLOT", slot, "NODE", dstID) // replicas refuse and learn it by gossip
	}
	step()
}

// agree waits until all nodes know the newest epoch. A node that takes a slot earlier
// may choose an epoch that another node has too, and Redis then loses the slot's owner.
func (c *Cluster) agree() {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		epochs := make(map[string]bool)
		for _, n := range c.Nodes {
			_, after, _ := strings.Cut(n.Do("CLUSTER", "INFO"), "cluster_current_epoch:")
			epoch, _, _ := strings.Cut(after, "\r")
			epochs[epoch] = true
		}
		return len(epochs) == 1
	}, 30*time.Second, 5*time.Millisecond, "all nodes know the newest epoch")
}
