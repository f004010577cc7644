package tests

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// node is a redis-server that belongs to one test.
type node struct {
	*redistest.Server
	*redis.Client // connected directly to the server
}

// startNode starts a redis-server.
func startNode(t *testing.T) *node {
	t.Helper()
	s := redistest.Start(t)
	return &node{s, s.Client}
}

// startNodes starts several redis-servers.
func startNodes(t *testing.T, count int) []*node {
	t.Helper()
	nodes := make([]*node, count)
	for i := range nodes {
		nodes[i] = startNode(t)
	}
	return nodes
}

// The stored keys in which proxies record their lists of backends begin with layouts, and those in which they record
// their busiest keys with busiest.
const (
	layouts = "rl:{%backends"
	busiest = "rl:{%hotkeys"
)

// keys returns all keys of the node, except those of the proxies themselves.
func (n *node) keys(t *testing.T) []string {
	t.Helper()
	var keys []string
	for it := n.Scan(context.Background(), 0, "*", 1000).Iterator(); it.Next(context.Background()); {
		if !strings.HasPrefix(it.Val(), layouts) && !strings.HasPrefix(it.Val(), busiest) {
			keys = append(keys, it.Val())
		}
	}
	return keys
}

// proxy is an rlproxy that belongs to one test.
type proxy struct {
	*proxytest.Proxy
	addr string
}

// startProxy starts an rlproxy on a free port and waits until it listens.
func startProxy(t *testing.T, args ...string) *proxy {
	t.Helper()
	p := proxytest.Start(t, args...)
	return &proxy{p, p.Addr}
}

// startProxies starts several rlproxies with the same arguments.
func startProxies(t *testing.T, count int, args []string) []*proxy {
	t.Helper()
	all := make([]*proxy, count)
	for i := range all {
		all[i] = startProxy(t, args...)
	}
	return all
}

// backends returns the arguments that name nodes. The timeouts are long because tests
// share a machine: an answer by FAIL policy would not be the node's.
func backends(nodes ...*node) []string {
	args := []string{"--backend-timeout", "10000", "--passthrough-timeout", "20000"}
	for _, n := range nodes {
		args = append(args, "--backend", n.URL())
	}
	return args
}

// stop asks the proxy to end, and checks that it did so cleanly.
func (p *proxy) stop(t *testing.T) {
	t.Helper()
	p.Stop(t)
}

// client returns a go-redis client of the proxy.
func (p *proxy) client(t *testing.T, protocol int) *redis.Client {
	c := redis.NewClient(&redis.Options{Addr: p.addr, Protocol: protocol, MaxRetries: -1, ReadTimeout: patience})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// eachEngine runs a test with the embedded engine, with one node and with three, and with
// further arguments of the proxy.
func eachEngine(t *testing.T, test func(t *testing.T, p *proxy), args ...string) {
	t.Run("embedded", func(t *testing.T) {
		p := startProxy(t, args...)
		test(t, p)
		p.stop(t)
	})
	for _, count := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", count), func(t *testing.T) {
			p := startProxy(t, append(backends(startNodes(t, count)...), args...)...)
			test(t, p)
			p.stop(t)
		})
	}
}

// words splits a command line at spaces.
func words(line string) []any {
	var args []any
	for _, w := range strings.Fields(line) {
		args = append(args, w)
	}
	return args
}
