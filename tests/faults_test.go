package tests

import (
	"fmt"
	"net"
	"os"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// night is where an operator looks: a proxy that is asked all the time, its log and its metrics.
type night struct {
	*testing.T
	p    *measured
	node *node
	conf string // its configuration

	began time.Time // of the fault
}

// fault is a fault of docs/operations.md, and where it shows.
type fault struct {
	name    string
	prepare func(n *night) (args []string) // before the proxy starts; nil: a node
	inject  func(n *night)                 // nil: it is there when the proxy starts
	log     string                         // a regular expression
	metric  string                         // a regular expression
	alert   string                         // none: there is none
}

// faults are those of the table in docs/operations.md.
var faults = []fault{
	{name: "a node cannot be reached when rlproxy starts",
		prepare: func(*night) []string { return []string{"--backend", "redis://127.0.0.1:1"} },
		log:     `msg="node is down" node=127.0.0.1:1 why="connection failed: connection refused"`,
		metric:  `node_up{node="127.0.0.1:1"} 0`, alert: "RlproxyNodeDown"},
	{name: "a node dies",
		inject: func(n *night) { n.node.Kill() },
		log:    `msg="node is down" node=\S+ why="connection failed: `,
		metric: `node_up{.*} 0`, alert: "RlproxyNodeDown"},
	{name: "a node hangs",
		inject: func(n *night) { n.node.Pause(); n.Cleanup(n.node.Resume) },
		log:    `msg="node is down" node=\S+ why="no answer in time"`,
		metric: `node_up{.*} 0`, alert: "RlproxyNodeDown"},
	{name: "a node has come back without its keys",
		inject: func(n *night) {
			known := regexp.MustCompile(`(?m)^rlproxy_node_keys{.*} [1-9]\d`)
			require.Eventually(n, func() bool { return known.MatchString(n.p.text(n.T, "")) }, time.Minute, 100*time.Millisecond)
			n.began = time.Now()
			n.node.Kill()
			n.node.Run()
		},
		log:    `msg="node is up" .* process=another keys=\d+ keys_before=\d+\n.*msg="the node has come back without its keys: what it had counted is lost, so these limits begin at 0"`,
		metric: `node_lost_keys_total{.*} 1`, alert: "RlproxyNodeLostKeys"},
	{name: "a node's answers come too late",
		prepare: func(n *night) []string {
			n.node = startNode(n.T)
			link := faultnet.Start(n.T, n.node.Addr)
			link.Set(faultnet.Faults{Delay: 200 * time.Millisecond})
			return []string{"--backend", "redis://" + link.Addr}
		},
		log:    `msg="node is down" node=\S+ why="no answer in time"`,
		metric: `node_errors_total{kind="timeout",.*} [1-9]`, alert: "RlproxyNodeDown"},
	{name: "a node has no memory left",
		inject: func(n *night) { n.node.Do("CONFIG", "SET", "maxmemory", "1") },
		log:    `msg="FAIL policies are answering in place of the node" node=\S+ why="OOM `,
		metric: `node_refuses{.*} 1`, alert: "RlproxyNodeRefuses"},
	{name: "a node's password has changed",
		inject: func(n *night) {
			n.node.Do("CONFIG", "SET", "requirepass", "changed")
			_, _ = n.node.Ask("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "no")
		},
		log:    `msg="node is down" node=\S+ why="NOAUTH Authentication required\."`,
		metric: `node_up{.*} 0`, alert: "RlproxyNodeDown"},
	{name: "a node may evict keys",
		prepare: func(n *night) []string {
			n.node = &node{Server: redistest.Start(n.T, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")}
			return []string{"--backend", n.node.URL()}
		},
		log:    `msg="the node may evict keys, and with them what was counted: set its maxmemory-policy to noeviction"`,
		metric: `node_evicts{.*} 1`, alert: "RlproxyNodeMayEvict"},
	{name: "a node's clock is half a second off, with windows of ten seconds",
		prepare: func(n *night) []string {
			n.node = &node{Server: redistest.StartClocked(n.T)}
			return []string{"--backend", n.node.URL()}
		},
		inject: func(n *night) { n.node.StepClock(500 * time.Millisecond) },
		log:    `msg="the clocks of the node and of this machine differ: limits hold by the node's" node=\S+ offset=\d+ms`,
		metric: `node_clock_off{.*} 1`, alert: "RlproxyClockOffset"},
	{name: "another proxy has another list of nodes",
		inject: func(n *night) { startProxy(n.T, backends(n.node, startNode(n.T))...) },
		log:    `msg="another proxy has a different list of backends" proxies=\S+ their_list="`,
		metric: `layout_conflict\S* 1`, alert: "RlproxyLayoutConflict"},
	{name: "more clients than maxclients connect",
		inject: func(n *night) {
			for range 40 {
				if nc, err := net.Dial("tcp", n.p.addr); err == nil {
					n.Cleanup(func() { _ = nc.Close() })
				}
			}
		},
		log:    `msg="refused a client because maxclients are connected" maxclients=20 addr=`,
		metric: `connections_refused_total{reason="maxclients"} [1-9]`, alert: "RlproxyConnectionsRefused"},
	{name: "a client does not read its replies",
		inject: func(n *night) {
			c := dial(n.T, n.p.addr)
			ask := []byte(strings.Repeat("*2\r\n$4\r\nECHO\r\n$10000\r\n"+strings.Repeat("x", 10_000)+"\r\n", 100))
			go func() {
				for {
					if _, err := c.Write(ask); err != nil {
						return // it was closed
					}
				}
			}()
		},
		log:    `msg="closed a client (at the output buffer limit|that does not read its replies)" client=\d+ addr=`,
		metric: `connections_closed_total{reason="(not_reading|output_buffer_limit)"} [1-9]`, alert: "none"},
	{name: "a reload fails",
		inject: func(n *night) {
			rewrite(n.T, n.conf, "no-such-directive yes\n")
			n.p.Signal(n.T, syscall.SIGHUP)
		},
		log:    `msg="configuration reload failed; the previous configuration stays in effect" error=".*unknown directive`,
		metric: `config_last_reload_failed\S* 1`, alert: "RlproxyReloadFailed"},
	{name: "the disk of the decision log is full",
		prepare: func(n *night) []string { return []string{"--decision-log", "/dev/full"} },
		log:     `msg="the decision log is dropping lines or falling behind" why="write /dev/full: no space left on device"`,
		metric:  `decision_log_failed_writes_total\S* [1-9]`, alert: "RlproxyDecisionLogLosesLines"},
}

// TestFaultsAreShown injects each fault on real servers, and requires that the log says it and that the metric has it,
// on which an alert of deploy/alerts.yaml waits. It logs after which time each was there.
func TestFaultsAreShown(t *testing.T) {
	t.Parallel()
	alerts, err := os.ReadFile("../deploy/alerts.yaml")
	require.NoError(t, err)
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			if f.alert != "none" {
				require.Contains(t, string(alerts), "alert: "+f.alert+"\n")
			}
			require.Regexp(t, `(?m)^\| `+regexp.QuoteMeta(f.name)+` \|.*\| (`+f.alert+`, |none)[^|]*\|$`, string(page))
			n := &night{T: t, conf: write(t, "rlproxy.conf", "maxclients 20\n")}
			args := []string{"--include", n.conf}
			if f.prepare == nil {
				n.node = startNode(t)
				args = append(args, "--backend", n.node.URL())
			} else {
				args = append(args, f.prepare(n)...)
			}
			n.began = time.Now()
			n.p = startMeasured(t, args...)
			n.load()
			if f.inject != nil {
				before := func() bool { return strings.Contains(n.p.text(t, ""), `result="allowed"`) }
				eventually(t, "decisions before the fault", before)
				n.began = time.Now()
				f.inject(n)
			}
			log, metric := regexp.MustCompile(f.log), regexp.MustCompile(`(?m)^rlproxy_`+f.metric)
			var logged, counted time.Duration
			shown := assert.Eventually(t, func() bool {
				if logged == 0 && log.MatchString(n.p.Output.String()) {
					logged = time.Since(n.began)
				}
				if counted == 0 && metric.MatchString(n.p.text(t, "")) {
					counted = time.Since(n.began)
				}
				return logged > 0 && counted > 0
			}, time.Minute, 10*time.Millisecond)
			require.True(t, shown, "log %v, metric %v", logged, counted)
			t.Logf("FAULT %s | log %.1f s | metric %.1f s", f.name, logged.Seconds(), counted.Seconds())
		})
	}
}

// load asks for decisions about new and old keys until the test ends.
func (n *night) load() {
	stop := make(chan struct{})
	var work sync.WaitGroup
	n.Cleanup(func() { close(stop); work.Wait() })
	c := dial(n.T, n.p.addr)
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(5 * time.Millisecond):
				_, _ = c.Exchange(words(fmt.Sprintf("RL.SLIDE key:%d 5 10s", i)), words("RL.SLIDE tenant:42 1 10s"))
			}
		}
	})
}
