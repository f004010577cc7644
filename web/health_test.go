package web

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
)

func TestReadinessFollowsTheNodes(t *testing.T) {
	t.Parallel()
	rules := Access{ACL: users(t, "default off", "boss on >hush ~* +@all", "probe on >hush")}
	up, down := engine.NodeInfo{Name: "a:1", State: "up"}, engine.NodeInfo{Name: "b:1", State: "down", Why: "connection refused"}
	suspect := engine.NodeInfo{Name: "c:1", State: "suspect", Why: "no answer in time"}
	refuses := engine.NodeInfo{Name: "d:1", State: "refuses", Why: "it refused the last call"}
	for _, c := range []struct {
		ready Ready
		nodes []engine.NodeInfo
		code  int
		body  string
	}{
		{NoNodes, nil, 200, "ok\n"},
		{NoNodes, []engine.NodeInfo{down}, 200, "ok\n"},
		{AnyNode, nil, 503, "no node is known yet\n"},
		{AnyNode, []engine.NodeInfo{down, up}, 200, "ok\n"},
		{AnyNode, []engine.NodeInfo{suspect}, 200, "ok\n"},
		{AnyNode, []engine.NodeInfo{down}, 503, "b:1: down, connection refused\n"},
		{AnyNode, []engine.NodeInfo{refuses}, 503, "d:1: refuses, it refused the last call\n"},
		{AllNodes, nil, 503, "no node is known yet\n"},
		{AllNodes, []engine.NodeInfo{up, suspect}, 200, "ok\n"},
		{AllNodes, []engine.NodeInfo{down, up, down}, 503, "b:1: down, connection refused\nb:1: down, connection refused\n"},
	} {
		s := start(t, rules, c.ready, nil)
		s.engine.set(c.nodes...)
		code, body := s.get(t, "/readyz", "boss:hush")
		require.Equal(t, c.code, code, c)
		require.Equal(t, c.body, body, c)
		code, body = s.get(t, "/readyz", "probe:hush")
		require.Equal(t, c.code, code, c)
		require.NotContains(t, body, "b:1", "the user may not see nodes")
		code, _ = s.get(t, "/readyz", "")
		require.Equal(t, http.StatusUnauthorized, code)
	}
}

func TestProcessThatWaitsIsNotReady(t *testing.T) {
	t.Parallel()
	for ready, code := range map[Ready]int{NoNodes: 200, AnyNode: 503, AllNodes: 503} {
		var why atomic.Value
		why.Store("a:1: policies have not been read yet")
		s := start(t, Access{ACL: users(t)}, ready, func(s *Server) { s.cfg.Waiting = func() string { return why.Load().(string) } })
		s.engine.set(engine.NodeInfo{Name: "a:1", State: "up"})
		got, body := s.get(t, "/readyz", "")
		require.Equal(t, code, got)
		if code == 503 {
			require.Equal(t, "a:1: policies have not been read yet\n", body)
		}
		why.Store("")
		got, _ = s.get(t, "/readyz", "")
		require.Equal(t, 200, got)
	}
}

// Nodes are checked even if they get no requests, so that /readyz knows their state.
func TestNodesAreCheckedBeforeAnyRequest(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, AnyNode, nil)
	require.Eventually(t, func() bool { return s.checked.Load() > 0 }, 20*time.Second, time.Millisecond)
}

func TestProcessThatStopsIsNotReadyButHealthy(t *testing.T) {
	t.Parallel()
	s := start(t, Access{ACL: users(t)}, NoNodes, nil)
	s.Drain()
	code, body := s.get(t, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, code)
	require.Equal(t, "the process is stopping\n", body)
	code, _ = s.get(t, "/healthz", "")
	require.Equal(t, http.StatusOK, code)
}
