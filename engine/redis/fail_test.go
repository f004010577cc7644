package redis

import (
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The command's own FAIL comes first, then the first rule that matches, then the default. INFO and the
// log show how often each answered.
func TestPolicies(t *testing.T) {
	var log proxytest.LockedBuffer
	s := redistest.Start(t)
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := openOn(t, backend.Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second, Logger: logger}, Config{
		Settings: Settings{
			Fail:      engine.FailClosed,
			FailRules: []engine.FailRule{{Glob: "api:*", Fail: engine.FailOpen}, {Glob: "*:x", Fail: engine.FailLocal}},
		},
		AskAlways: true, Logger: logger,
	})
	ready(t, e, "k")
	require.Equal(t, engine.FailDefault, conformance.Ask(e, charge("other", 2)).Fail, "the node answered")
	node, shards := e.Where([]byte("k"))
	require.Equal(t, s.Addr, node)
	require.Equal(t, 1, shards)
	e.fleet.SetTimeout(200 * time.Millisecond)
	s.Pause()
	ask := func(key string, fail engine.FailPolicy) engine.Result {
		r := charge(key, 2)
		r.Fail = fail
		return conformance.Ask(e, r)
	}
	_, _ = ask("k", engine.FailError), ask("k", engine.FailError)
	require.Eventually(t, e.Topology().Nodes[0].Down, 5*time.Second, time.Millisecond)

	closed := ask("k", engine.FailDefault)
	require.NoError(t, closed.Err)
	require.Equal(t, engine.FailClosed, closed.Fail)
	require.Equal(t, limit.Decision{Limit: 2, Remaining: -1, RetryAfter: closed.RetryAfter, ResetAfter: closed.RetryAfter}, closed.Decision)
	require.GreaterOrEqual(t, closed.RetryAfter, int64(1))
	require.LessOrEqual(t, closed.RetryAfter, time.Second.Milliseconds())
	require.Equal(t, limit.Decision{Allowed: true, Limit: 2, Remaining: -1}, ask("api:x", engine.FailDefault).Decision)
	require.Equal(t, closed.Allowed, ask("api:x", engine.FailClosed).Allowed)
	require.ErrorContains(t, ask("api:x", engine.FailError).Err, "UNAVAILABLE "+s.Addr+": no answer in time")
	require.Equal(t, engine.FailError, ask("api:x", engine.FailError).Fail)
	for i := range 4 {
		local := ask("web:x", engine.FailDefault)
		require.Equal(t, i < 2, local.Allowed, "LOCAL keeps the limit")
		require.EqualValues(t, -1, local.Remaining)
		require.Equal(t, engine.FailLocal, local.Fail)
	}
	reset := conformance.Reset("web:x")
	reset.Fail = engine.FailOpen
	require.ErrorContains(t, conformance.Ask(e, reset).Err, "UNAVAILABLE")
	require.True(t, ask("web:x", engine.FailDefault).Allowed, "a reset resets what was counted here")

	require.Equal(t, "2", info(t, e, "answered_closed"))
	require.Equal(t, "1", info(t, e, "answered_open"))
	require.Equal(t, "5", info(t, e, "answered_local"))
	errors, err := strconv.Atoi(info(t, e, "answered_error"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, errors, 4)
	require.Contains(t, info(t, e, "node0"), "state=down")
	require.Contains(t, info(t, e, "node0"), "closed=2,open=1,local=5,error="+fmt.Sprint(errors))

	e.fleet.SetTimeout(5 * time.Second)
	s.Resume()
	require.Eventually(t, func() bool { return !e.Topology().Nodes[0].Down() }, 10*time.Second, time.Millisecond)
	require.Eventually(t, func() bool { return info(t, e, "local_written_back") == "1" }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, 0, ask("web:x", engine.FailDefault).Remaining, "one was admitted here, one there")
	said := log.String()
	require.Equal(t, 1, strings.Count(said, `"node is down"`), said)
	require.Equal(t, 1, strings.Count(said, `"node is up"`), said)
	require.Contains(t, said, "closed=2 open=1 local=5")
}

// While a node is down or refuses calls, a line in the log every minute shows since when and how often
// policies have answered.
func TestTheLogSaysEveryMinuteHowPoliciesAnswer(t *testing.T) {
	t.Parallel()
	for trouble, msg := range map[string]string{"down": "node is still down", "refuses": "FAIL policies are answering in place of the node"} {
		t.Run(trouble, func(t *testing.T) {
			t.Parallel()
			var log proxytest.LockedBuffer
			var halves atomic.Int64 // minutes that have passed, in halves
			clock := func() time.Time { return time.Now().Add(time.Duration(halves.Load()) * time.Minute / 2) }
			s := redistest.Start(t)
			logger := slog.New(slog.NewTextHandler(&log, nil))
			e := openOn(t, backend.Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second, Logger: logger, Now: clock},
				Config{AskAlways: true, Logger: logger})
			e.now = clock
			ready(t, e, "k")
			answered := 0
			ask := func(times int) {
				for range times {
					require.NotEqual(t, engine.FailDefault, conformance.Ask(e, conformance.Slide("k", 5, 1000, 1)).Fail)
					answered++
				}
			}
			if trouble == "down" {
				s.Kill()
				for !e.Topology().Nodes[0].Down() {
					ask(1)
				}
			} else {
				s.Do("CONFIG", "SET", "maxmemory", "1")
				ask(1)
			}
			for i := range 3 {
				ask(7)
				halves.Add(1)
				ask(1)
				halves.Add(1)
				if trouble == "refuses" {
					ask(1)
				}
				line := regexp.MustCompile(fmt.Sprintf(`msg="%s" node=%s( since=\S+)? why="?.+ closed=%d\n`, msg, s.Addr, answered))
				proxytest.Eventually(t, line.String(), func() bool { return line.MatchString(log.String()) })
				minute := strings.Count(log.String(), `msg="`+msg+`"`)
				require.Equal(t, map[string]int{"down": i + 1, "refuses": i + 2}[trouble], minute, log.String())
			}
			if trouble == "refuses" { // its end is logged, and what follows is another episode
				s.Do("CONFIG", "SET", "maxmemory", "0")
				halves.Add(1)
				require.Equal(t, engine.FailDefault, conformance.Ask(e, conformance.Slide("k", 5, 1000, 1)).Fail)
				end := regexp.MustCompile(fmt.Sprintf(`level=INFO msg="FAIL policies no longer answer in place of the node" node=%s after=3m0\.?\S*s closed=%d\n`, s.Addr, answered))
				require.Regexp(t, end, log.String())
				s.Do("CONFIG", "SET", "maxmemory", "1")
				ask(1)
				require.Regexp(t, `msg="`+msg+`" node=`+s.Addr+` why=.* closed=1\n$`, log.String())
			}
		})
	}
}

// A node that is down does not make the proxy allocate for each request.
func TestOpenAndClosedAllocateNothing(t *testing.T) {
	e := openAlways(t, time.Minute, "redis://"+startFake(t).addr)
	q := e.queues.OpenAll().Queues[0]
	for _, policy := range []engine.FailPolicy{engine.FailOpen, engine.FailClosed} {
		r, res := charge("k", 5), engine.Result{}
		r.Fail = policy
		require.Zero(t, testing.AllocsPerRun(100, func() { e.answerByFail(q, &r, &res, backend.NoAnswer, false) }), policy.String())
		require.Equal(t, policy, res.Fail)
	}
	require.NoError(t, q.Close())
	r, res := charge("k", 5), engine.Result{}
	r.Fail = engine.FailOpen
	items := []item{{Item: backlog.Item{At: e.elapsed()}, task: entry{}, req: &r, res: &res}}
	require.Zero(t, testing.AllocsPerRun(100, func() { q.submit(items, 0) }))
}
