package tests

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// checked is the answer to a check.
type checked struct {
	Allowed                  bool
	Limit, Remaining         int64
	RetryAfter               int64 `json:"retry_after_ms"`
	ResetAfter               int64 `json:"reset_after_ms"`
	Policy                   string
	status                   int
	rate, ratePolicy, repeat string // RateLimit, RateLimit-Policy, Retry-After
}

// check asks for a decision over HTTP.
func (s *site) check(t *testing.T, path string) (c checked) {
	t.Helper()
	answer, err := s.send(t.Context(), http.MethodGet, "check/"+path, "", "")
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(body, &c), string(body))
	c.status = answer.StatusCode
	c.rate, c.ratePolicy, c.repeat = answer.Header.Get("RateLimit"), answer.Header.Get("RateLimit-Policy"), answer.Header.Get("Retry-After")
	return c
}

// headers asks by RL.CHECK with DETAILS. It returns the header RateLimit-Policy and, in RateLimit, what remains.
func (c *conn) headers(t *testing.T, keys string) []any {
	t.Helper()
	details := fields(t, c.do(t, words("RL.CHECK "+keys+" DETAILS")...))
	headers := fields(t, details["headers"])
	remaining := headers["RateLimit"]
	if rate, ok := remaining.(string); ok {
		remaining = strings.Split(rate, ";")[1]
	}
	require.Equal(t, details["allowed"] == int64(0), headers["Retry-After"] != nil, "%v", details)
	return []any{headers["RateLimit-Policy"], remaining}
}

// TestChecksCountWithRLCHECK asks for the same keys by command and over HTTP, with each engine. Checks are answered once
// a reload enables them.
func TestChecksCountWithRLCHECK(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(nodes...)} {
		t.Run(name, func(t *testing.T) {
			conf, log := filepath.Join(t.TempDir(), "rlproxy.conf"), filepath.Join(t.TempDir(), "decisions")
			configure := func(text string) {
				require.NoError(t, os.WriteFile(conf, []byte("policy api SLIDE 6 1h\npolicy-override api free UNLIMITED\ndecision-log "+log+"\n"+text), 0o600))
			}
			configure("")
			s := startHTTP(t, append(args, "--include", conf)...)
			require.Equal(t, http.StatusNotFound, s.check(t, "api/a%2Fb").status)
			configure("http-check yes\n")
			s.hangup(t, reloaded)

			c := dial(t, s.addr)
			for left := int64(5); left >= 0; left-- {
				if left%2 == 0 {
					require.Equal(t, left, c.decide(t, "RL.CHECK api a/b").remaining)
					continue
				}
				got := s.check(t, "api/a%2Fb")
				require.Equal(t, checked{true, 6, left, 0, got.ResetAfter, "api", 200, `"api";r=` + string(rune('0'+left)), `"api";q=6;w=3600`, ""}, got)
				require.Positive(t, got.ResetAfter)
			}
			got := s.check(t, "api/a%2Fb?status=403")
			require.Equal(t, []any{false, int64(0), 403, "api"}, []any{got.Allowed, got.Remaining, got.status, got.Policy})
			require.Regexp(t, `^3(59\d|60\d)$`, got.repeat)
			require.Equal(t, `"api";r=0;t=`+got.repeat, got.rate)
			for range 2 {
				require.EqualValues(t, 2, s.check(t, "api/b?cost=4&once=x").Remaining, "the id is charged once")
			}
			eventually(t, "the denial to be logged", func() bool {
				text, err := os.ReadFile(log) // #nosec G304 -- the test's own
				return err == nil && strings.Contains(string(text), `"event":"denial","command":"rl.slide","policy":"api","result":"denied","key":"api:a/b"`)
			})
			_, metrics := s.get(t, "metrics", "")
			require.Contains(t, metrics, `rlproxy_decisions_total{command="rl.slide",policy="api",result="denied"} 1`)
			require.Contains(t, metrics, `rlproxy_decisions_total{command="rl.slide",policy="api",result="repeated"} 1`)
			require.Equal(t, []any{got.ratePolicy, "r=0"}, c.headers(t, "api a/b"), "of a denial")
			require.Equal(t, []any{got.ratePolicy, "r=0"}, c.headers(t, "api free AND api a/b"), "of the key that denies")
			require.Equal(t, []any{got.ratePolicy, "r=5"}, c.headers(t, "api c AND api free"), "of the key with a limit")
			s.stop(t)
		})
	}
}

// TestChecksFollowTheFAILPolicy asks for decisions of a node that hangs, then lets it answer while the process stops.
func TestChecksFollowTheFAILPolicy(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	args := []string{"--backend", n.URL(), "--backend-timeout", "200", "--http-check", "yes"}
	for _, fail := range []string{"OPEN", "CLOSED", "LOCAL", "ERROR"} {
		args = append(args, "--policy", strings.ToLower(fail), "SLIDE", "5", "60", "FAIL", fail)
	}
	s := startHTTP(t, args...)
	for _, name := range []string{"open", "closed", "local", "error"} {
		require.EqualValues(t, 4, s.check(t, name+"/k").Remaining)
	}
	c := dial(t, s.addr)
	n.Pause()
	for name, status := range map[string]int{"open": 200, "closed": 429, "local": 200, "error": 503} {
		got := s.check(t, name+"/k")
		if name == "error" {
			require.IsType(t, errReply(""), c.do(t, "RL.CHECK", "error", "k", "DETAILS"))
		} else {
			require.Equal(t, []any{got.ratePolicy, nil}, c.headers(t, name+" k"))
		}
		require.Equal(t, status, got.status, name)
		require.Empty(t, got.rate, "what remains is unknown")
		require.Equal(t, name == "closed", got.repeat != "", name)
		if name != "error" {
			require.EqualValues(t, -1, got.Remaining)
			require.Equal(t, `"`+name+`";q=5;w=60`, got.ratePolicy)
		}
	}
	n.Resume()
	s.stop(t)
}

// TestADrainAnswersChecks stops a proxy while a check waits for its node.
func TestADrainAnswersChecks(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	s := startHTTP(t, "--backend", n.URL(), "--backend-timeout", "20000", "--shutdown-timeout", "60", "--http-check", "yes", "--policy", "api", "SLIDE", "5", "60")
	require.EqualValues(t, 4, s.check(t, "api/k").Remaining)
	n.Pause()
	got := make(chan checked, 1)
	go func() { got <- s.check(t, "api/k") }() // until the node answers
	eventually(t, "the check to wait", func() bool {
		_, metrics := s.get(t, "metrics", "")
		return strings.Contains(metrics, "rlproxy_http_checks 1\n")
	})
	s.Signal(t, syscall.SIGTERM)
	eventually(t, "the proxy to accept no more connections", func() bool {
		answer, err := s.send(t.Context(), http.MethodGet, "readyz", "", "")
		return err != nil || answer.Body.Close() != nil
	})
	n.Resume()
	require.EqualValues(t, 3, (<-got).Remaining)
	require.Zero(t, s.Exit(t))
}
