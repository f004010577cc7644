package tests

import (
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// fleetKeys returns what RL.HOTKEYS FLEET reports about each key, by field name, and how many
// proxies were added up; 0 if there are no keys.
func (c *conn) fleetKeys(t *testing.T) (keys map[string]map[string]any, proxies int64) {
	t.Helper()
	c.do(t, "HELLO", 3)
	defer c.do(t, "HELLO", 2)
	keys = make(map[string]map[string]any)
	for _, line := range c.do(t, "RL.HOTKEYS", "COUNT", 1000, "FLEET").([]any) {
		k := fields(t, line)
		keys[k["key"].(string)] = k
		proxies = k["proxies"].(int64)
	}
	return keys, proxies
}

// askEach sends requests for each key to each proxy, and returns how many decisions each key had.
func askEach(t *testing.T, proxies []*conn, keys, times int) int64 {
	t.Helper()
	for i := range keys {
		for j, c := range proxies {
			for range times * (j + 1) {
				c.decide(t, "RL.SLIDE shared"+strconv.Itoa(i)+" 5 60")
			}
		}
	}
	sent := 0
	for j := range proxies {
		sent += times * (j + 1)
	}
	return int64(sent)
}

// sums reports whether RL.HOTKEYS FLEET shows the given numbers of decisions and of proxies.
func (c *conn) sums(t *testing.T, keys int, sent, proxies int64) bool {
	t.Helper()
	found, from := c.fleetKeys(t)
	for i := range keys {
		k := found["shared"+strconv.Itoa(i)]
		if k == nil || k["admitted"] != int64(5) || k["denied"] != sent-5 {
			return false
		}
	}
	return from == proxies
}

// TestFleetAddsUpWhatAllProxiesSee sends requests to three proxies in front of two nodes.
// RL.HOTKEYS FLEET shows the sums at each proxy, also while a node is away, and without a
// proxy that was killed.
func TestFleetAddsUpWhatAllProxiesSee(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	args := []string{"--backend-timeout", "2000", "--passthrough", "no", "--backend", nodes[0].URL(), "--backend", nodes[1].URL()}
	proxies := startProxies(t, 3, args)
	var clients []*conn
	for _, p := range proxies {
		clients = append(clients, dial(t, p.addr))
	}
	const keys = 20
	sent := askEach(t, clients, keys, 2)
	begun := time.Now()
	for i, c := range clients {
		eventually(t, "the sums at proxy "+strconv.Itoa(i), func() bool { return c.sums(t, keys, sent, 3) })
	}
	t.Logf("all proxies have the sums after %v", time.Since(begun))
	require.Equal(t, int64(2), clients[0].info(t, "hotkeys_other_proxies"))
	require.Len(t, clients[0].do(t, "RL.HOTKEYS", "FLEET").([]any)[0], 5, "RESP2 has the same five fields with FLEET as without")

	nodes[0].Kill()
	for i, c := range clients {
		eventually(t, "the sums of proxy "+strconv.Itoa(i)+" without a node", func() bool { return c.sums(t, keys, sent, 3) })
	}
	proxies[2].Kill()
	begun = time.Now()
	eventually(t, "the killed proxy to be forgotten", func() bool {
		_, from := clients[0].fleetKeys(t)
		return from == 2
	})
	t.Logf("a killed proxy is forgotten after %v", time.Since(begun))
	found, _ := clients[0].fleetKeys(t)
	require.Less(t, found["shared0"]["admitted"].(int64)+found["shared0"]["denied"].(int64), sent)

	nodes[1].Kill()
	eventually(t, "the keys of this proxy alone", func() bool {
		own, from := clients[0].fleetKeys(t)
		k := own["shared0"]
		return from == 1 && k != nil && k["admitted"].(int64)+k["denied"].(int64) == 2
	})
	for _, n := range nodes {
		n.Run()
	}
	eventually(t, "both proxies again", func() bool {
		_, from := clients[1].fleetKeys(t)
		return from == 2
	})
	for _, p := range proxies[:2] {
		p.stop(t)
	}
	for _, n := range nodes {
		require.Zero(t, n.Exists(t.Context(), busiest+"}").Val(), "proxies that stop remove their notes")
	}
}

// TestFleetWorksWithACluster does the same in front of a Redis Cluster, one of whose masters ends.
func TestFleetWorksWithACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3, nil)
	proxies := startProxies(t, 2, []string{"--backend-timeout", "2000", "--passthrough", "no", "--backend", cluster.URL()})
	clients := []*conn{proxies[0].ready(t), proxies[1].ready(t)}
	const keys = 10
	sent := askEach(t, clients, keys, 4)
	for _, c := range clients {
		eventually(t, "the sums", func() bool { return c.sums(t, keys, sent, 2) })
	}
	cluster.Nodes[0].Kill()
	for _, c := range clients {
		eventually(t, "the sums without a master", func() bool { return c.sums(t, keys, sent, 2) })
	}
}

// TestFleetShowsUsersOnlyTheirKeys checks that no user sees a key of another proxy that it may not read.
func TestFleetShowsUsersOnlyTheirKeys(t *testing.T) {
	t.Parallel()
	args := append(backends(startNode(t)), "--user", "shop", "on", ">hush", "~shared1*", "+rl.hotkeys", "+hello")
	proxies := startProxies(t, 2, args)
	clients := []*conn{dial(t, proxies[0].addr), dial(t, proxies[1].addr)}
	sent := askEach(t, clients, 20, 2)
	eventually(t, "the sums", func() bool { return clients[0].sums(t, 20, sent, 2) })
	shop := dial(t, proxies[0].addr)
	require.Equal(t, status("OK"), shop.do(t, "AUTH", "shop", "hush"))
	found, from := shop.fleetKeys(t)
	require.Equal(t, int64(2), from)
	require.Len(t, found, 11)
	for name, k := range found {
		require.Contains(t, name, "shared1")
		require.Equal(t, sent, k["admitted"].(int64)+k["denied"].(int64))
	}

	alone := dial(t, startProxy(t).addr)
	alone.decide(t, "RL.SLIDE shared0 5 60")
	keys, from := alone.fleetKeys(t)
	require.Equal(t, int64(1), from, "the embedded engine is a fleet of its own")
	require.Equal(t, int64(1), keys["shared0"]["admitted"])
}
