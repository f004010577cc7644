package tests

import (
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/freeport"
)

//go:generate go test -run TestMetricsAreDocumented -update .

var update = flag.Bool("update", false, "rewrite the table of docs/metrics.md, and the figures of README.md")

func TestMetricsAreDocumentedAndKeepTheConventions(t *testing.T) {
	t.Parallel()
	port, err := freeport.Take()
	require.NoError(t, err)
	embedded, fleet := startMeasured(t, "--rls-port", strconv.Itoa(port)), startMeasured(t, backends(startNodes(t, 2)...)...)
	c := dial(t, embedded.addr)
	for range 100 { // until the key is one of the busiest
		c.do(t, "RL.SLIDE", "k", 5, 60)
	}
	eventually(t, "a hot key", func() bool { return strings.Contains(embedded.text(t, ""), `{key="k"}`) })
	eventually(t, "what nodes say of themselves", func() bool { return strings.Contains(fleet.text(t, ""), "rlproxy_node_keys{") })
	texts := []string{embedded.text(t, ""), fleet.text(t, "")}
	for _, text := range texts {
		problems, err := promlint.New(strings.NewReader(text)).Lint()
		require.NoError(t, err)
		require.Empty(t, problems)
	}

	const file, begin, end = "../docs/metrics.md", "|---|---|---|---|\n", "\n## "
	doc, err := os.ReadFile(file)
	require.NoError(t, err)
	before, rest, ok := strings.Cut(string(doc), begin)
	require.True(t, ok)
	table, after, ok := strings.Cut(rest, end)
	require.True(t, ok)
	want := documented(texts...)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(before+begin+want+end+after), 0o644)) // #nosec G306 -- a page of the repository
		return
	}
	require.Equal(t, want, table, "docs/metrics.md is stale: run go test ./tests -run TestMetricsAreDocumented -update")

	// Some metrics have series only after something has happened, which must happen above.
	declared := regexp.MustCompile(`(?:gauge|counter|distributionOf)\(\s*"(\w+)"`)
	sources, err := filepath.Glob("../web/metrics/*.go")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, path := range sources {
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, m := range declared.FindAllSubmatch(source, -1) {
			require.Contains(t, table, "| `rlproxy_"+string(m[1])+"` |", path)
		}
	}
	for row := range strings.Lines(table) {
		for _, label := range regexp.MustCompile(`\w+`).FindAllString(strings.Split(row, "|")[3], -1) {
			require.Regexp(t, `(?m)^\|[^|]* `+"`"+label+"`"+`[^|]*\|`, after, "docs/metrics.md does not say which values the label %s has", label)
		}
	}
}

func TestMetricsCountDecisionsAndConnections(t *testing.T) {
	t.Parallel()
	p := startMeasured(t)
	c := dial(t, p.addr)
	for range 3 {
		c.pipeline(t, words("RL.SLIDE a 2 60"), words("RL.SLIDE a 2 60"), words("RL.FIXED a 1 60"), words("PING"))
	}
	c.do(t, "RL.COUNTER", "b", 5, 60)
	c.do(t, "CL.THROTTLE", "c", 0, 1, 60)
	c.do(t, "CL.THROTTLE", "c", 0, 1, 60)
	for i := range 65 { // the last window is one too many
		c.do(t, "RL.SLIDE", "d", 5, 60+i)
	}
	strange, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	_, err = io.WriteString(strange, "*x\r\n")
	require.NoError(t, err)
	_, err = io.ReadAll(strange)
	require.NoError(t, err)
	require.NoError(t, strange.Close())
	gone := dial(t, p.addr)
	gone.do(t, "PING")
	require.NoError(t, gone.Close())
	eventually(t, "two closed connections", func() bool { return p.scrape(t)["connections"] == 1 })

	s := p.scrape(t)
	require.Equal(t, map[string]int{"allowed": 2 + 64, "denied": 4, "error": 1}, s.decided("rl.slide"))
	require.Equal(t, map[string]int{"allowed": 1, "denied": 2}, s.decided("rl.fixed"))
	require.Equal(t, map[string]int{"allowed": 1}, s.decided("rl.counter"))
	require.Equal(t, map[string]int{"allowed": 1, "denied": 1}, s.decided("cl.throttle"))
	requireSeries(t, series{
		`decision_duration_seconds_count{command="rl.slide"}`:            71,
		`decision_duration_seconds_bucket{command="rl.slide",le="+Inf"}`: 71,
		`connections`:                       1,
		`connections_accepted_total`:        3,
		`commands_total`:                    3*4 + 3 + 65 + 1,
		`keys`:                              4,
		`memory_refusals_total`:             0,
		`acl_denials_total{reason="login"}`: 0,
		`connections_closed_total{reason="protocol_error"}`: 1,
		`connections_closed_total{reason="client"}`:         1,
	}, s)
	require.Positive(t, s["memory_used_bytes"])
	require.Positive(t, s["memory_max_bytes"])
	require.Positive(t, s["client_received_bytes_total"])
	require.Positive(t, s["client_sent_bytes_total"])
	p.stop(t)
}

func TestMetricsFollowTheNodes(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	p := startMeasured(t, "--backend-timeout", "1000", "--backend", nodes[0].URL(), "--backend", nodes[1].URL())
	c := dial(t, p.addr)
	label := func(name string, n *node, more string) string { return name + `{node="` + n.Addr + `"` + more + `}` }

	errors := func(kind string, n *node) string {
		return `node_errors_total{kind="` + kind + `",node="` + n.Addr + `"}`
	}
	failed := func(policy string, n *node) string {
		return `node_fail_answers_total{fail="` + policy + `",node="` + n.Addr + `"}`
	}

	// One key on each node.
	key := make([]string, 2)
	asked := []int{0, 0}
	for i := 0; key[0] == "" || key[1] == ""; i++ {
		k := fmt.Sprint("k", i)
		require.Equal(t, int64(1), c.do(t, "RL.SLIDE", k, 1, 60).([]any)[0])
		for j, n := range nodes {
			if len(n.keys(t)) > asked[j] {
				asked[j]++
				key[j] = k
			}
		}
	}
	first := asked[0] + asked[1]
	for range 3 { // one denial by the node, two remembered ones
		c.do(t, "RL.SLIDE", key[0], 1, 60)
	}
	var equal [][]any
	for range 10 {
		equal = append(equal, words("RL.FIXED "+key[0]+" 100 60"))
	}
	c.pipeline(t, equal...)
	c.do(t, "SET", "ordinary", "x")
	s := p.scrape(t)
	require.Equal(t, map[string]int{"allowed": first, "denied": 1, "denied_from_memory": 2}, s.decided("rl.slide"))
	require.Equal(t, map[string]int{"allowed": 10}, s.decided("rl.fixed"))
	requireSeries(t, series{
		`nodes`:                        2,
		`denials_answered_total`:       2,
		label("node_up", nodes[0], ""): 1, label("node_up", nodes[1], ""): 1,
		label("node_refuses", nodes[0], ""):                       0,
		label("node_combined_requests_total", nodes[0], ""):       9,
		label("node_combined_requests_total", nodes[1], ""):       0,
		label("node_batch_requests_sum", nodes[0], ""):            float64(asked[0] + 1 + 10),
		label("node_batch_requests_count", nodes[0], ""):          float64(asked[0] + 1 + 1),
		label("node_batch_requests_bucket", nodes[0], `,le="8"`):  float64(asked[0] + 1),
		label("node_batch_requests_bucket", nodes[0], `,le="16"`): float64(asked[0] + 2),
		label("node_queue_duration_seconds_count", nodes[0], ""):  float64(asked[0] + 11),
		label("node_queue_requests", nodes[0], ""):                0,
		label("node_queue_overflows_total", nodes[0], ""):         0,
		errors("timeout", nodes[0]):                               0,
		failed("open", nodes[0]):                                  0,
	}, s)
	for _, n := range nodes {
		require.Positive(t, s[label("node_round_trip_duration_seconds_count", n, "")])
		require.Positive(t, s[label("node_last_answer_timestamp_seconds", n, "")])
		require.Positive(t, s[label("node_latency_seconds", n, "")])
		require.Contains(t, s, label("node_clock_offset_seconds", n, ""))
	}
	require.EqualValues(t, 1, s[label("forward_commands_total", nodes[0], "")]+s[label("forward_commands_total", nodes[1], "")])

	// One node is gone and one hangs. Each FAIL policy answers.
	nodes[0].Kill()
	nodes[1].Pause()
	policies := map[string]int{"open": 4, "closed": 3, "local": 2, "error": 1}
	for _, n := range nodes {
		down := label("node_up", n, "")
		eventually(t, down, func() bool {
			for j := range nodes {
				c.do(t, "RL.COUNTER", key[j], 1, 60, "FAIL", "OPEN")
			}
			return p.scrape(t)[down] == 0
		})
	}
	before := p.scrape(t)
	for j := range nodes {
		for policy, n := range policies {
			for range n {
				c.do(t, "RL.SLIDE", key[j], 9, 60, "FAIL", policy)
			}
		}
	}
	s = p.scrape(t)
	require.Equal(t, map[string]int{
		"allowed": first, "denied": 1, "denied_from_memory": 2,
		"fail_open": 8, "fail_closed": 6, "fail_local": 4, "fail_error": 2,
	}, s.decided("rl.slide"))
	for _, n := range nodes {
		for policy, count := range policies {
			name := failed(policy, n)
			require.EqualValues(t, count, s[name]-before[name], name)
		}
	}
	c.do(t, "RL.SLIDE", key[0], 1, 60, "FAIL", "LOCAL") // of two that FAIL LOCAL has counted
	require.Equal(t, 1, p.scrape(t).decided("rl.slide")["denied_by_fail_local"])
	require.Positive(t, s[errors("connection", nodes[0])])
	require.Positive(t, s[errors("timeout", nodes[1])])
	require.Zero(t, s[errors("memory", nodes[1])])

	// They are back, and one refuses calls.
	nodes[0].Run()
	nodes[1].Resume()
	nodes[0].Do("CONFIG", "SET", "maxmemory", "1")
	eventually(t, "a node that refuses", func() bool {
		c.do(t, "RL.FIXED", key[0], 100, 60, "FAIL", "CLOSED")
		s = p.scrape(t)
		return s[label("node_up", nodes[0], "")] == 1 && s[label("node_up", nodes[1], "")] == 1 && s[label("node_refuses", nodes[0], "")] == 1
	})
	require.Positive(t, s[errors("memory", nodes[0])])
	p.stop(t)
}

// Keys are shown only to users who may see all keys, and to nobody with metrics-keys no. No other
// metric has a label with a key.
func TestMetricsShowKeysOnlyToPermittedUsers(t *testing.T) {
	t.Parallel()
	args := []string{
		"--user", "default", "off", "--user", "app", "on", ">app", "~*", "+@all",
		"--user", "prometheus", "on", ">prom", "+info", "--user", "tenant", "on", ">tenant", "~secret:*", "+info", "+rl.hotkeys",
	}
	hidden, shown := startMeasured(t, append(args, "--metrics-keys", "no")...), startMeasured(t, args...)
	for _, p := range []*measured{hidden, shown} {
		c := dial(t, p.addr)
		require.Equal(t, status("OK"), c.do(t, "AUTH", "app", "app"))
		for range 50 {
			c.do(t, "RL.SLIDE", "secret:\"\n\xff", 5, 60)
		}
		require.Contains(t, c.do(t, "RL.HOTKEYS").([]any)[0], "secret:\"\n\xff")
		require.NotContains(t, p.text(t, "prometheus:prom"), "secret")
		require.NotContains(t, p.text(t, "tenant:tenant"), "secret")
	}
	require.Contains(t, shown.text(t, "app:app"), `rlproxy_hot_key_decisions_per_second{key="secret:\"\n`+"\uFFFD~")
	require.NotContains(t, hidden.text(t, "app:app"), "secret")
	require.NotContains(t, hidden.text(t, "app:app"), "hot_key")
}

// Decisions by a policy's limits are counted and logged under the policy's name, and as the command of
// its algorithm. Statistics of commands count them as RL.CHECK, which was sent.
func TestDecisionsAreCountedAndLoggedByPolicy(t *testing.T) {
	t.Parallel()
	nodes := backends(startNodes(t, 2)...)
	for engine, args := range map[string][]string{"embedded": nil, "redis": nodes} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			l, args := newDecisionLog(t, args...)
			p := startMeasured(t, args...)
			c := dial(t, p.addr)
			eventually(t, "a policy", func() bool {
				_, failed := c.do(t, words("RL.POLICY SET api FIXED 2 1h")...).(error)
				return !failed
			})
			c.do(t, words("RL.POLICY OVERRIDE api vip UNLIMITED")...)
			c.do(t, words("RL.POLICY OVERRIDE api spam BLOCKED")...)
			c.do(t, words("RL.POLICY SET trial SLIDE 1 1h SHADOW")...)
			for _, line := range []string{"api k COST 2", "api k", "api vip", "api vip", "api spam", "trial k", "trial k"} {
				c.do(t, words("RL.CHECK "+line)...)
			}
			c.do(t, words("RL.FIXED k 1 60")...)
			s := p.scrape(t)
			require.Equal(t, map[string]int{"allowed": 3, "denied": 2}, s.decidedBy("api", "rl.fixed"))
			require.Equal(t, map[string]int{"shadow_allowed": 1, "shadow_denied": 1}, s.decidedBy("trial", "rl.slide"))
			require.Equal(t, map[string]int{"allowed": 1}, s.decided("rl.fixed"))
			require.Empty(t, s.decided("rl.slide"))
			require.NotContains(t, s, `decisions_total{command="rl.fixed",policy="api",result="error"}`, "it had none")
			require.Contains(t, c.do(t, words("INFO commandstats")...), "cmdstat_rl.check:calls=7,")
			p.stop(t)
			var got []string
			for _, line := range l.lines(t) {
				got = append(got, fmt.Sprintf("%v %v %v %v %v", line["policy"], line["command"], line["key"], line["limit"], line["shadow"]))
			}
			require.Equal(t, []string{"api rl.fixed api:k 2 <nil>", "api rl.fixed api:spam 0 <nil>", "trial rl.slide trial:k 1 true"}, got)
		})
	}
}

func TestMetricsCountOutcomesOfHolds(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"embedded": nil, "2 nodes": append(backends(startNodes(t, 2)...), "--backend-timeout", "10000")} {
		t.Run(name, func(t *testing.T) {
			p := startMeasured(t, args...)
			c := dial(t, p.addr)
			for _, line := range []string{
				"RL.RESERVE r 100 60 COST 10 ID a", "RL.RESERVE r 100 60 COST 10 ID a", "RL.RESERVE r 100 60 COST 91 ID b", "RL.RESERVE r 100 60 COST 20 ID c",
				"RL.SETTLE r a 4", "RL.SETTLE r a 4", "RL.SETTLE r a 5", "RL.SETTLE r c 27",
				"RL.SLIDE once 5 60 ONCE x", "RL.SLIDE once 5 60 ONCE x", "RL.SLIDE once 5 60 ONCE y",
				"RL.ACQUIRE s 1 ID a", "RL.ACQUIRE s 1 ID a", "RL.ACQUIRE s 1 ID b", "RL.RENEW s a", "RL.RENEW s b", "RL.RELEASE s a b",
				"RL.RESERVE lapse 100 60 COST 10 ID a TTL 20ms",
				"RL.ACQUIRE tied 5 ID a CONN TTL 3s", "RL.ACQUIRE tied 5 ID b TTL 20ms",
				"RL.FIXED full 1 60 AND free 5 60", "RL.FIXED full 1 60 AND free 5 60",
			} {
				_, failed := c.do(t, words(line)...).(errReply)
				require.False(t, failed, line)
			}
			eventually(t, "a lapse", func() bool {
				c.do(t, "RL.SLIDE", "lapse", 1_000_000, 60)
				return p.scrape(t)["reservations_lapsed_total"] == 1
			})
			eventually(t, "a renewal of the lease with CONN to remove the one that has lapsed", func() bool {
				return p.scrape(t)["slot_leases_lapsed_total"] == 1
			})
			s := p.scrape(t)
			require.Equal(t, map[string]int{"allowed": 3, "denied": 1, "repeated": 1}, s.decided("rl.reserve"))
			require.Equal(t, map[string]int{"allowed": 3, "denied": 1, "repeated": 1}, s.decided("rl.acquire"))
			require.Equal(t, 1, s.decided("rl.slide")["repeated"])
			require.Equal(t, map[string]int{"allowed": 2, "denied": 1, "denied_by_other_key": 1}, s.decided("rl.fixed"))
			requireSeries(t, series{
				`settles_total{result="settled"}`: 2, `settles_total{result="repeated"}`: 1, `settles_total{result="unknown"}`: 1, `settles_total{result="error"}`: 0,
				`settle_charged_units_total`: 31, `settle_returned_units_total`: 6, `settle_overrun_units_total`: 7,
				`slot_releases_total{result="released"}`: 1, `slot_releases_total{result="unknown"}`: 1,
				`slot_renewals_total{result="renewed"}`: 1, `slot_renewals_total{result="unknown"}`: 1,
				`slot_leases_tied`: 1,
			}, s)
			p.stop(t)
		})
	}
}
