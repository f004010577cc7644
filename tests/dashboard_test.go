package tests

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// expressions returns those of the dashboard, by panel and legend, about one proxy.
func expressions(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana.json")
	require.NoError(t, err)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	require.NoError(t, json.Unmarshal(text, &dashboard))
	all := make(map[string]string)
	variables := strings.NewReplacer("$job", ".*", "$instance", ".*", "$policy", ".*", "$__rate_interval", "5s")
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			all[p.Title+": "+target.LegendFormat] = variables.Replace(target.Expr)
		}
	}
	require.Greater(t, len(all), 40)
	return all
}

// startPrometheus starts a Prometheus that takes the metrics of proxies each second, and returns its URL.
func startPrometheus(t *testing.T, proxies ...*measured) string {
	t.Helper()
	var targets []string
	for _, p := range proxies {
		target, err := url.Parse(p.url)
		require.NoError(t, err)
		targets = append(targets, strconv.Quote(target.Host))
	}
	conf := write(t, "prometheus.yml", "global: {scrape_interval: 1s}\nscrape_configs:\n  - job_name: rlproxy\n    static_configs: [{targets: ["+
		strings.Join(targets, ",")+"]}]\n")
	at := "127.0.0.1:" + strconv.Itoa(redistest.FreePort(t))
	p := spawn(t, "prometheus", "--config.file", conf, "--storage.tsdb.path", t.TempDir(), "--web.listen-address", at)
	eventually(t, "Prometheus", func() bool {
		answer, err := http.Get("http://" + at + "/-/ready") // #nosec G107 -- the test's own
		if err != nil {
			return !p.Running()
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	require.True(t, p.Running(), p.Output)
	return "http://" + at
}

// found reports whether an expression has a value that is a number.
func found(t *testing.T, prometheus, expr string) bool {
	t.Helper()
	answer, err := http.Get(prometheus + "/api/v1/query?query=" + url.QueryEscape(expr)) // #nosec G107 -- the test's own
	require.NoError(t, err)
	var said struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	require.NoError(t, json.NewDecoder(answer.Body).Decode(&said))
	require.NoError(t, answer.Body.Close())
	require.Equal(t, "success", said.Status, "%s: %s", expr, said.Error)
	for _, r := range said.Data.Result {
		if r.Value[1] != "NaN" {
			return true
		}
	}
	return false
}

// Every line of the dashboard shows something while all features are used and a node dies. It needs Prometheus, which
// make check-alerts installs.
func TestDashboardHasNoEmptyPanel(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("prometheus"); err != nil {
		t.Log("prometheus is missing: only TestDashboardAndAlertsUseMetricsThatExist has checked the dashboard")
		return
	}
	nodes := startNodes(t, 2)
	_, args := newDecisionLog(t, "--backend", nodes[0].URL(), "--backend", nodes[1].URL(), "--maxclients", "40", "--hot-key", "split:*", "2",
		"--policy", "api", "SLIDE", "5", "1s", "--policy", "trial", "SLIDE", "5", "1s", "SHADOW", "--policy-override", "api", "vip", "9", "1s")
	p := startMeasured(t, args...)
	prometheus := startPrometheus(t, p, startMeasured(t)) // one has its state in the process
	stop := make(chan struct{})
	var load sync.WaitGroup
	t.Cleanup(func() { close(stop); load.Wait() })
	for worker := range 4 {
		c := dial(t, p.addr)
		load.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprint(worker, ".", i)
				var commands [][]any
				for _, line := range []string{
					"SET " + id + " 1", "RL.SETTLE tokens " + fmt.Sprint(worker, ".", i-2) + " 3", "RL.RELEASE slots " + id, "RL.RENEW slots gone",
					"RL.SLIDE hot 1000000 60", "RL.SLIDE split:a 1000000 1s", "RL.SLIDE full 1 60", "RL.CHECK api a", "RL.CHECK trial a",
					"RL.RESERVE tokens 1000000 60 COST 5 ID " + id + " TTL 5s", "RL.ACQUIRE slots 1000000 ID " + id + " TTL 60",
				} {
					commands = append(commands, words(line))
				}
				if _, err := c.Exchange(commands...); err != nil {
					return
				}
			}
		})
	}
	left := expressions(t)
	look := func() bool {
		for name, expr := range left {
			if found(t, prometheus, expr) {
				delete(left, name)
			}
		}
		return len(left) == 0
	}
	const inTrouble = 5 // what shows errors, answers by FAIL policy, and connections that were closed or refused
	require.Eventually(t, func() bool { look(); return len(left) <= inTrouble }, time.Minute, 100*time.Millisecond, "%v", left)
	nodes[1].Pause()
	trouble := func() bool {
		for range 80 { // more than maxclients
			if nc, err := net.Dial("tcp", p.addr); err == nil {
				defer func() { _ = nc.Close() }()
				_, _ = nc.Write([]byte("*x\r\n")) // it need not arrive: others will
			}
		}
		return look()
	}
	require.Eventually(t, trouble, time.Minute, 100*time.Millisecond, "%v", left)
}
