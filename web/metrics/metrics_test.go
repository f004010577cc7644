package metrics

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/internal/histogram"
)

// fakeEngine is an engine whose nodes a test sets.
type fakeEngine struct {
	engine.Engine // nil: a call that a test does not expect panics
	nodes         []engine.NodeInfo
}

func (e *fakeEngine) Nodes() []engine.NodeInfo               { return e.nodes }
func (e *fakeEngine) Where([]byte) (node string, shards int) { return "embedded", 1 }

// observed returns a configuration whose Observer has seen 20 decisions about each of the keys, and
// its engine.
func observed(t *testing.T, keys ...string) (Config, *fakeEngine) {
	t.Helper()
	e := &fakeEngine{}
	o := observe.New(observe.Config{Engine: e})
	for range 20 { // enough for each to be one of the busiest
		for _, k := range keys {
			decide(o, k, limit.Slide, engine.Result{Decision: limit.Decision{Allowed: true}})
		}
	}
	return Config{Engine: e, Observer: o, Version: "1.2.3", Build: "devel"}, e
}

func decide(o *observe.Observer, key string, kind limit.Kind, results ...engine.Result) {
	p := &engine.Pipeline{Results: results, Requests: make([]engine.Request, len(results))}
	for i := range p.Requests {
		p.Requests[i].Key, p.Requests[i].Kind = []byte(key), kind
	}
	o.Observe(p, time.Now(), 16*time.Microsecond, observe.Sender{})
}

// scrape returns the text of /metrics, for a user who may or may not see keys.
func scrape(t *testing.T, c Config, keys bool) string {
	t.Helper()
	w := httptest.NewRecorder()
	h := New(c).Handler(func(*http.Request) bool { return keys }, slog.New(slog.NewTextHandler(failing{t}, nil)))
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, w.Code)
	return string(body)
}

// failing fails its test if anything is logged.
type failing struct{ t *testing.T }

func (f failing) Write(line []byte) (int, error) {
	f.t.Errorf("logged: %s", line)
	return len(line), nil
}

func TestDecisionsAreCountedByResult(t *testing.T) {
	t.Parallel()
	c, _ := observed(t)
	allowed := engine.Result{Decision: limit.Decision{Allowed: true}}
	decide(c.Observer, "k", limit.Counter, allowed, allowed, engine.Result{}, engine.Result{Remembered: true}, engine.Result{Fail: engine.FailOpen})
	text := scrape(t, c, false)
	for _, line := range []string{
		`rlproxy_decisions_total{command="rl.counter",policy="",result="allowed"} 2`,
		`rlproxy_decisions_total{command="rl.counter",policy="",result="denied"} 1`,
		`rlproxy_decisions_total{command="rl.counter",policy="",result="denied_from_memory"} 1`,
		`rlproxy_decisions_total{command="rl.counter",policy="",result="fail_open"} 1`,
		`rlproxy_decisions_total{command="rl.counter",policy="",result="error"} 0`,
		`rlproxy_decisions_total{command="rl.slide",policy="",result="allowed"} 0`,
		`rlproxy_decision_duration_seconds_bucket{command="rl.counter",le="8e-06"} 0`,
		`rlproxy_decision_duration_seconds_bucket{command="rl.counter",le="1.6e-05"} 5`,
		`rlproxy_decision_duration_seconds_bucket{command="rl.counter",le="0.262144"} 5`,
		`rlproxy_decision_duration_seconds_bucket{command="rl.counter",le="+Inf"} 5`,
		`rlproxy_decision_duration_seconds_sum{command="rl.counter"} 8e-05`,
		`rlproxy_build_info{build="devel",version="1.2.3"} 1`,
		`go_goroutines `,
		`process_open_fds `,
	} {
		require.Contains(t, text, "\n"+line)
	}
}

// A policy has a series only for each result that it had.
func TestDecisionsAreCountedByPolicy(t *testing.T) {
	t.Parallel()
	c, _ := observed(t)
	p := &engine.Pipeline{Requests: make([]engine.Request, 3), Results: make([]engine.Result, 3)}
	for i := range p.Requests {
		p.Requests[i] = engine.Request{Key: []byte("api:k"), Policy: "api", Spec: limit.Spec{Kind: limit.Fixed}}
	}
	p.Results[2].Allowed = true
	c.Observer.Observe(p, time.Now(), time.Millisecond, observe.Sender{})
	var got []string
	for line := range strings.Lines(scrape(t, c, false)) {
		if strings.HasPrefix(line, "rlproxy_decisions_total{") && !strings.Contains(line, `policy=""`) {
			got = append(got, line)
		}
	}
	require.Equal(t, []string{
		`rlproxy_decisions_total{command="rl.fixed",policy="api",result="allowed"} 1` + "\n",
		`rlproxy_decisions_total{command="rl.fixed",policy="api",result="denied"} 2` + "\n",
	}, got)
}

func TestStatsOfINFOAreMetrics(t *testing.T) {
	t.Parallel()
	c, _ := observed(t)
	c.Stats = func() []engine.Stat {
		return []engine.Stat{
			{Name: "engine", Text: "embedded"},
			{Name: "keys", Value: 7, Metric: "keys", Help: "Keys."},
			{Name: "a", Value: 3, Metric: "closed_total", Reason: "a", Help: "Closed."},
			{Name: "b", Value: 4, Metric: "closed_total", Reason: "b", Help: "Closed."},
			{Name: "c", Value: 5, Metric: "checks_total", Result: "refused", Help: "Checks."},
		}
	}
	text := scrape(t, c, false)
	require.Contains(t, text, "# TYPE rlproxy_keys gauge\nrlproxy_keys 7\n")
	require.Contains(t, text, "# TYPE rlproxy_closed_total counter\nrlproxy_closed_total{reason=\"a\"} 3\nrlproxy_closed_total{reason=\"b\"} 4\n")
	require.Contains(t, text, "\nrlproxy_checks_total{result=\"refused\"} 5\n")
	require.NotContains(t, text, "embedded")
}

func TestEachNodeHasItsOwnSeries(t *testing.T) {
	t.Parallel()
	c, e := observed(t)
	var times histogram.H
	times.Add(time.Millisecond, 2)
	e.nodes = []engine.NodeInfo{
		{Name: "a:1/0", State: "up", Traffic: &engine.Traffic{
			Waiting: 5, Waits: times.Snapshot(), RoundTrips: times.Snapshot(), Combined: 6, Overflows: 7, Answered: time.UnixMilli(1500),
			Batches:     engine.Sizes{Sum: 9, AtMost: [12]int64{1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 3}},
			Failures:    []engine.Failures{{Kind: "timeout", Count: 8}},
			FailAnswers: [engine.FailPolicies]int64{engine.FailOpen: 4},
		}},
		{Name: "a:1/1", State: "refuses", Why: "OOM \xff" + strings.Repeat("x", 1000), Facts: &engine.NodeFacts{Keys: 3, Memory: 4, MaxMemory: 5, Evicts: true, Saves: "no", LostKeys: 9,
			Latency: time.Millisecond, Offset: -2 * time.Second, ClockOff: true}}, // another database of the same server
		{Name: "b:1/main/0", State: "down"}, // its address is unknown
		{Name: "b:1/main/0", State: "down"}, // a duplicate must not break the other series
		{Name: "c:1", State: "suspect"},
	}
	text := scrape(t, c, false)
	for _, line := range []string{
		`node_up{node="a:1/0"} 1`, `node_up{node="a:1/1"} 1`, `node_up{node="b:1/main/0"} 0`, `node_up{node="c:1"} 1`,
		`node_refuses{node="a:1/0"} 0`, `node_refuses{node="a:1/1"} 1`, `node_trouble_info{node="a:1/0",why=""} 0`,
		"node_trouble_info{node=\"a:1/1\",why=\"OOM \uFFFD" + strings.Repeat("x", maxLabel-5) + `"} 1`,
		`node_keys{node="a:1/1"} 3`, `node_memory_used_bytes{node="a:1/1"} 4`, `node_memory_max_bytes{node="a:1/1"} 5`,
		`node_evicts{node="a:1/1"} 1`, `node_saves_nothing{node="a:1/1"} 1`, `node_lost_keys_total{node="a:1/1"} 9`,
		`node_latency_seconds{node="a:1/1"} 0.001`, `node_clock_offset_seconds{node="a:1/1"} -2`, `node_clock_off{node="a:1/1"} 1`,
		`node_queue_requests{node="a:1/0"} 5`, `node_combined_requests_total{node="a:1/0"} 6`, `node_queue_overflows_total{node="a:1/0"} 7`,
		`node_errors_total{kind="timeout",node="a:1/0"} 8`, `node_fail_answers_total{fail="open",node="a:1/0"} 4`,
		`node_last_answer_timestamp_seconds{node="a:1/0"} 1.5`,
		`node_queue_duration_seconds_sum{node="a:1/0"} 0.002`, `node_round_trip_duration_seconds_count{node="a:1/0"} 2`,
		`node_batch_requests_bucket{node="a:1/0",le="1"} 1`, `node_batch_requests_bucket{node="a:1/0",le="8"} 2`,
		`node_batch_requests_bucket{node="a:1/0",le="1024"} 2`, `node_batch_requests_bucket{node="a:1/0",le="+Inf"} 3`,
		`node_batch_requests_sum{node="a:1/0"} 9`,
	} {
		require.Contains(t, text, "\nrlproxy_"+line+"\n")
	}
	require.NotContains(t, text, `rlproxy_node_latency_seconds{node="c:1"}`, "it is not measured yet")
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
}

var keySeries = regexp.MustCompile(`(?m)^rlproxy_hot_key_decisions_per_second\{key="(.*)"\} (\S+)$`)

func TestAtMostFiftySeriesHaveAKey(t *testing.T) {
	t.Parallel()
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprint("tenant:", i))
	}
	c, _ := observed(t, keys...)
	text := scrape(t, c, true)
	require.Len(t, keySeries.FindAllString(text, -1), maxKeys)
	require.Equal(t, maxKeys, strings.Count(text, "tenant:"), "another metric has a key")
	require.NotContains(t, scrape(t, c, false), "tenant:")
	c.NoKeys = true
	require.NotContains(t, scrape(t, c, true), "tenant:")
}

// Keys with any bytes have series, and do not break other series.
func TestStrangeKeysDoNotBreakTheScrape(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 150)
	keys := []string{
		"plain", "\xff\xfe", "\xff\xfd", "\x00\"\\\n", long + "1", long + "2", strings.Repeat("ü", 80), strings.Repeat("\x80", 4096),
		strings.Repeat("x", maxLabel),
	}
	c, _ := observed(t, keys...)
	text := scrape(t, c, true)
	found := keySeries.FindAllStringSubmatch(text, -1)
	require.Len(t, found, len(keys))
	seen := make(map[string]bool)
	for _, m := range found {
		seen[m[1]] = true
		require.LessOrEqual(t, len(m[1]), 3*maxLabel+1+16)
	}
	require.Len(t, seen, len(keys), "two keys have one label")
	require.True(t, seen["plain"])
	require.True(t, seen[`\x00\"\\\n`] || seen["\x00\\\"\\\\\\n"], "%q", text)
	require.True(t, seen[strings.Repeat("x", maxLabel)], "a key that fits was cut")
	require.Contains(t, text, "\nrlproxy_build_info")
}

// A key may be the same text as the label that another one has. Two series with it would fail the scrape.
func TestKeyThatIsTheLabelOfAnother(t *testing.T) {
	t.Parallel()
	const key = "\xff"
	c, _ := observed(t, key, keyLabel([]byte(key)))
	require.Len(t, keySeries.FindAllString(scrape(t, c, true), -1), 1)
}

// goneClient is the connection of a client that has closed it.
type goneClient struct{ http.ResponseWriter }

func (goneClient) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestScrapeThatItsClientCutsOffIsNotLogged(t *testing.T) {
	t.Parallel()
	c, _ := observed(t)
	h := New(c).Handler(func(*http.Request) bool { return true }, slog.New(slog.NewTextHandler(failing{t}, nil)))
	h.ServeHTTP(goneClient{httptest.NewRecorder()}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
}

func TestKeysAreCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	label := keyLabel([]byte("a" + strings.Repeat("ü", 80)))
	require.Regexp(t, `^aü{49}~[0-9a-f]{1,16}$`, label)
}

// slowClient is the connection of a client that does not read the answer.
type slowClient struct {
	http.ResponseWriter
	writing chan<- struct{}
	reads   <-chan struct{}
}

func (c slowClient) Write(b []byte) (int, error) {
	select {
	case c.writing <- struct{}{}:
	case <-c.reads:
	}
	<-c.reads
	return len(b), nil
}

// Clients that do not read their answers keep no other client from its answer.
func TestSlowScrapersDoNotLockOthersOut(t *testing.T) {
	t.Parallel()
	c, _ := observed(t)
	h := New(c).Handler(func(*http.Request) bool { return true }, slog.New(slog.NewTextHandler(failing{t}, nil)))
	writing, reads := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	for range maxScrapes {
		all.Go(func() { // ends when the client reads
			h.ServeHTTP(slowClient{httptest.NewRecorder(), writing, reads}, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		})
		<-writing
	}
	got := httptest.NewRecorder()
	h.ServeHTTP(got, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	require.Equal(t, http.StatusOK, got.Code)
	require.Contains(t, got.Body.String(), "rlproxy_build_info")
	close(reads)
	all.Wait()
}
