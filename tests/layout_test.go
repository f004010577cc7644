package tests

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// layout returns what INFO reports about the lists of backends.
func (c *conn) layout(t *testing.T) string {
	t.Helper()
	for line := range strings.Lines(c.do(t, "INFO", "engine").(string)) {
		if state, ok := strings.CutPrefix(line, "layout:"); ok {
			return strings.TrimSpace(state)
		}
	}
	return ""
}

// askBoth sends a request for each of n keys, with a limit of 1, to both proxies; which one comes
// first alternates. It returns the number of keys that a node decided for both, and requires that
// neither proxy admits anything for the others.
func askBoth(t *testing.T, a, b *proxy, prefix string, n int) (decided int) {
	t.Helper()
	clients := []*conn{dial(t, a.addr), dial(t, b.addr)}
	for i := range n {
		line := fmt.Sprintf("RL.SLIDE %s%d 1 3600 FAIL CLOSED", prefix, i)
		first, second := clients[i%2].decide(t, line), clients[(i+1)%2].decide(t, line)
		require.LessOrEqual(t, first.allowed+second.allowed, int64(1), "%s: %v %v", line, first, second)
		require.Equal(t, first.remaining == -1, second.remaining == -1, "%s: %v %v", line, first, second)
		if first.remaining != -1 {
			require.Equal(t, int64(1), first.allowed, line)
			decided++
		} else {
			require.Zero(t, first.allowed+second.allowed, line)
		}
	}
	return decided
}

// TestProxiesWithOtherBackendsDoNotAdmitTwice starts two proxies with different lists of
// backends. Both notice. For keys that the lists place on different nodes, their FAIL policies
// answer until one of the proxies has ended.
func TestProxiesWithOtherBackendsDoNotAdmitTwice(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	strict := []string{"--layout-guard", "strict"}
	old := startProxy(t, append(backends(nodes[:2]...), strict...)...)
	changed := startProxy(t, append(backends(nodes...), strict...)...)
	oldConn, changedConn := dial(t, old.addr), dial(t, changed.addr)
	require.Equal(t, "conflict", changedConn.layout(t), "it notices before it answers anything")
	begun := time.Now()
	eventually(t, "the older proxy to see the other list", func() bool { return oldConn.layout(t) == "conflict" })
	t.Logf("seen after %v", time.Since(begun))
	for _, p := range []*proxy{old, changed} {
		require.Contains(t, p.Output.String(), "another proxy has a different list of backends")
		require.Contains(t, p.Output.String(), nodes[2].Addr+"/0", "the log says which nodes")
	}

	decided := askBoth(t, old, changed, "k", 600)
	require.InDelta(t, 400, decided, 80, "of three nodes, the new one takes a third of the keys")
	c := changedConn
	for i := range 30 { // among 30 keys there is a contested one
		_, failed := c.do(t, "RL.SLIDE", fmt.Sprint("k", i), 1, 3600, "FAIL", "ERROR").(proxytest.ErrReply)
		open := c.decide(t, fmt.Sprintf("RL.SLIDE k%d 1 3600 FAIL OPEN", i))
		require.Equal(t, failed, open.remaining == -1)
		require.Equal(t, failed, open.allowed == 1)
		require.IsType(t, int64(0), c.do(t, "RL.RESET", fmt.Sprint("k", i)), "a reset admits nothing")
	}

	local := ""
	for i := 0; local == ""; i++ {
		key := fmt.Sprint("local", i)
		if c.decide(t, "RL.SLIDE "+key+" 5 3600 FAIL LOCAL").remaining == -1 {
			local = key
		}
	}

	begun = time.Now()
	old.stop(t)
	eventually(t, "the lists to agree", func() bool { return changedConn.layout(t) == "agreed" })
	t.Logf("over after %v", time.Since(begun))
	require.Equal(t, 100, askBoth(t, changed, changed, "l", 100))
	eventually(t, "what was counted here to be written back", func() bool {
		states := c.do(t, "RL.INSPECT", local).([]any)
		return len(states) == 1 && fields(t, states[0])["used"] == int64(1)
	})
	require.Contains(t, changed.Output.String(), "all proxies have the same list of backends again")

	third := startProxy(t, append(backends(nodes[1]), strict...)...)
	eventually(t, "a third list to be seen", func() bool { return changedConn.layout(t) == "conflict" })
	begun = time.Now()
	third.Kill()
	eventually(t, "the list of a killed proxy to be forgotten", func() bool { return changedConn.layout(t) == "agreed" })
	t.Logf("over after %v", time.Since(begun))
	require.Equal(t, 100, askBoth(t, changed, changed, "m", 100))
	changed.stop(t)
	for _, n := range nodes[2:] {
		require.Zero(t, n.Exists(t.Context(), layouts+"}").Val(), "a proxy that stops removes its note")
	}
}

// TestLayoutGuardOnlyWarnsUnlessStrict switches the guard by SIGHUP while two proxies
// disagree.
func TestLayoutGuardOnlyWarnsUnlessStrict(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	conf := write(t, "rlproxy.conf", "")
	p := startProxy(t, append([]string{"--include", conf}, backends(nodes...)...)...)
	c := dial(t, p.addr)
	other := startProxy(t, append(backends(nodes[0]), "--layout-guard", "off")...)
	require.Equal(t, "unguarded", dial(t, other.addr).layout(t))
	require.Equal(t, "agreed", c.layout(t), "a proxy without a guard is not seen")
	other.stop(t)
	other = startProxy(t, backends(nodes[0])...)
	eventually(t, "the other list to be seen", func() bool { return c.layout(t) == "conflict" })
	eventually(t, "a line about it", func() bool { return strings.Contains(p.Output.String(), "layout-guard=warn") })

	contested := func() (n int) {
		for i := range 60 {
			if c.decide(t, fmt.Sprintf("RL.SLIDE k%d 1000 60", i)).remaining == -1 {
				n++
			}
		}
		return n
	}
	require.Zero(t, contested(), "nodes decide")
	rewrite(t, conf, "layout-guard strict\n")
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "contested keys to be answered by FAIL policy", func() bool { return contested() > 10 })
	rewrite(t, conf, "layout-guard warn\n")
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "nodes to decide again", func() bool { return contested() == 0 })
	p.stop(t)
	other.stop(t)
}

// A check of a new list must not look to other proxies like a proxy that has it.
func TestCheckWritesNothingToNodes(t *testing.T) {
	t.Parallel()
	node := startNodes(t, 1)[0]
	code, out := outcome(t, append(backends(node), "--check")...)
	require.Zero(t, code, out)
	stats, err := node.Client.Info(t.Context(), "commandstats").Result()
	require.NoError(t, err)
	for _, command := range []string{"cmdstat_eval", "cmdstat_evalsha", "cmdstat_fcall", "cmdstat_set"} {
		require.NotContains(t, stats, command)
	}
}

// TestOneServerIsOneNodeUnderAnyName checks that lists with different names for one server
// agree, that two names for one server in a list are warned about, and that databases are nodes of
// their own.
func TestOneServerIsOneNodeUnderAnyName(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--bind", "127.0.0.1 127.0.0.2")
	start := func(urls ...string) *proxy {
		args := []string{"--layout-guard", "strict", "--backend-timeout", "10000"}
		for _, u := range urls {
			args = append(args, "--backend", u)
		}
		return startProxy(t, args...)
	}
	all := []*proxy{
		start(fmt.Sprintf("redis://127.0.0.1:%d", s.Port)), start(fmt.Sprintf("redis://LOCALHOST:0%d/0", s.Port)),
		start(fmt.Sprintf("redis://127.0.0.2:%d", s.Port)),
		start(fmt.Sprintf("redis://127.0.0.1:%d/1", s.Port), fmt.Sprintf("redis://127.0.0.2:%d/2", s.Port)),
	}
	c := dial(t, all[0].addr)
	eventually(t, "the first proxy to see the third", func() bool {
		return len(fields(t, c.do(t, "RL.NODES").([]any)[0])["layouts"].([]any)) == 2
	})
	for _, p := range all {
		require.Equal(t, "agreed", dial(t, p.addr).layout(t))
		require.NotContains(t, p.Output.String(), "level=warning")
	}
	require.Equal(t, 50, askBoth(t, all[0], all[1], "a", 50))
	require.Equal(t, 50, askBoth(t, all[1], all[2], "b", 50))

	twice := start(fmt.Sprintf("redis://127.0.0.1:%d/3", s.Port), fmt.Sprintf("redis://127.0.0.2:%d/3", s.Port))
	eventually(t, "a warning", func() bool { return strings.Contains(twice.Output.String(), "two backends are the same server") })
	require.Equal(t, "agreed", dial(t, twice.addr).layout(t))
	for _, p := range append(all, twice) {
		p.stop(t)
	}
}

// TestNodesAreShown sends RL.NODES while a node is away.
func TestNodesAreShown(t *testing.T) {
	t.Parallel()
	require.Empty(t, dial(t, startProxy(t).addr).do(t, "RL.NODES"), "the embedded engine has no nodes")
	nodes := startNodes(t, 2)
	p := startProxy(t, append(backends(nodes...), "--backend-timeout", "500")...)
	other := startProxy(t, backends(nodes[0])...)
	c := dial(t, p.addr)
	shown := func(i int) map[string]any { return fields(t, c.do(t, "RL.NODES").([]any)[i]) }
	eventually(t, "two lists on the first node", func() bool { return len(shown(0)["layouts"].([]any)) == 2 })
	n := shown(0)
	require.Equal(t, nodes[0].Addr, n["node"])
	require.Equal(t, nodes[0].Addr+"/0", n["name"])
	require.Equal(t, "up", n["state"])
	require.Equal(t, "", n["why"])
	require.Positive(t, n["latency-us"])
	require.IsType(t, int64(0), n["clock-offset-ms"])
	eventually(t, "what the node says of itself", func() bool { return shown(0)["memory"] != nil })
	require.Equal(t, "noeviction", shown(0)["maxmemory-policy"])
	for _, l := range n["layouts"].([]any) {
		list := fields(t, l)
		require.Len(t, list["proxies"], 1)
		pid := p.Cmd.Process.Pid
		if list["own"] == int64(0) {
			pid = other.Cmd.Process.Pid
			require.Equal(t, []any{nodes[0].Addr + "/0"}, list["names"])
		}
		require.Contains(t, list["proxies"].([]any)[0], fmt.Sprintf(":%d:", pid))
	}
	nodes[0].Kill()
	eventually(t, "the node to be down", func() bool {
		for i := range 20 { // some of these keys are on the node
			c.do(t, "RL.SLIDE", i, 1, 1)
		}
		return shown(0)["state"] == "down"
	})
	require.NotEmpty(t, shown(0)["why"])
	require.Equal(t, "up", shown(1)["state"])
	p.stop(t)
	other.stop(t)
}

// rewrite replaces a file's content.
func rewrite(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
}
