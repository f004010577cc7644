package engine

import (
	"bytes"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// info returns an engine's INFO field.
func info(t *testing.T, e *Redis, name string) string {
	t.Helper()
	for _, f := range e.Info() {
		if f.Name == name {
			return f.Value
		}
	}
	require.Fail(t, "INFO has no "+name)
	return ""
}

// The command's own FAIL comes first, then the first rule that matches, then the
// default. INFO and the log say how often each answered.
func TestPolicies(t *testing.T) {
	var log lockedBuffer
	s := redistest.Start(t)
	e, err := OpenRedis(RedisConfig{
		Backends: []string{s.URL()}, Policy: PolicyClosed, Timeout: 500 * time.Millisecond, AskAlways: true,
		Rules:  []PolicyRule{{"api:*", PolicyOpen}, {"*:x", PolicyLocal}},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	ready(t, e, "k")
	s.Pause()
	ask := func(key string, fail Policy) Result {
		r := charge(key, 2)
		r.Fail = fail
		return do(e, r)
	}
	_, _ = ask("k", PolicyError), ask("k", PolicyError)
	require.Eventually(t, e.nodes[0].health.down, 5*time.Second, time.Millisecond)

	closed := ask("k", PolicyDefault)
	require.NoError(t, closed.Err)
	require.Equal(t, Decision{Limit: 2, Remaining: -1, RetryAfter: closed.RetryAfter, ResetAfter: closed.RetryAfter}, closed.Decision)
	require.GreaterOrEqual(t, closed.RetryAfter, int64(1))
	require.LessOrEqual(t, closed.RetryAfter, probeMax.Milliseconds())
	require.Equal(t, Decision{Allowed: true, Limit: 2, Remaining: -1}, ask("api:x", PolicyDefault).Decision)
	require.Equal(t, closed.Allowed, ask("api:x", PolicyClosed).Allowed)
	require.ErrorContains(t, ask("api:x", PolicyError).Err, "UNAVAILABLE "+s.Addr+": no answer in time")
	for i := range 4 {
		local := ask("web:x", PolicyDefault)
		require.Equal(t, i < 2, local.Allowed, "LOCAL keeps the limit")
		require.EqualValues(t, -1, local.Remaining)
	}
	require.ErrorContains(t, do(e, Request{Op: OpReset, Key: []byte("web:x"), Fail: PolicyOpen}).Err, "UNAVAILABLE")
	require.True(t, ask("web:x", PolicyDefault).Allowed, "a reset resets what was counted here")

	require.Equal(t, "2", info(t, e, "answered_closed"))
	require.Equal(t, "1", info(t, e, "answered_open"))
	require.Equal(t, "5", info(t, e, "answered_local"))
	errors, err := strconv.Atoi(info(t, e, "answered_error"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, errors, 3)
	require.Contains(t, info(t, e, "node0"), "state=down")
	require.Contains(t, info(t, e, "node0"), "closed=2,open=1,local=5,error="+fmt.Sprint(errors))

	s.Resume()
	require.Eventually(t, func() bool { return !e.nodes[0].health.down() }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return info(t, e, "local_settled") == "1" }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 0, ask("web:x", PolicyDefault).Remaining, "one was admitted here, one there")
	said := log.String()
	require.Equal(t, 1, strings.Count(said, `"node is down"`), said)
	require.Equal(t, 1, strings.Count(said, `"node is up"`), said)
	require.Contains(t, said, "closed=2 open=1 local=5")
}

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
