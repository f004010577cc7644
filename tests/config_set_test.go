package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startConfigured starts an rlproxy with a configuration file.
func startConfigured(t *testing.T, lines ...string) *proxy {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rlproxy.conf")
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
	return startProxy(t, "--include", path)
}

// set changes directives by CONFIG SET.
func (c *conn) set(t *testing.T, pairs ...any) {
	t.Helper()
	require.Equal(t, status("OK"), c.do(t, append([]any{"CONFIG", "SET"}, pairs...)...), "%v", pairs)
}

// setting returns what CONFIG GET shows of a directive.
func (c *conn) setting(t *testing.T, name string) any {
	t.Helper()
	reply := c.do(t, "CONFIG", "GET", name).([]any)
	require.Len(t, reply, 2)
	return reply[1]
}

// reload sends SIGHUP and waits until the log says that the configuration was reloaded.
func (p *proxy) reload(t *testing.T) {
	t.Helper()
	const done = `msg="configuration reloaded"`
	before := strings.Count(p.Output.String(), done)
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "the reload", func() bool { return strings.Count(p.Output.String(), done) > before })
}

// TestFailPolicyCanBeChangedDuringAnOutage lets an operator change the FAIL policy while a node is away, for all keys and by
// glob, and change it back. After SIGHUP the file applies again. The log says who changed what.
func TestFailPolicyCanBeChangedDuringAnOutage(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startConfigured(t, "backend "+n.URL(), "fail-policy closed", "fail-policy web:* error", "user default on nopass ~* +@all -config|set", "user ops on >hush ~* +@all", "requirepass \"\"")
	c, ops := dial(t, p.addr), dial(t, p.addr)
	require.Equal(t, status("OK"), ops.do(t, "AUTH", "ops", "hush"))
	require.Equal(t, errReply("NOPERM this user has no permissions to run the 'config|set' command"), c.do(t, "CONFIG", "SET", "fail-policy", "open"))
	eventually(t, "the node", func() bool { return c.decide(t, "RL.SLIDE api:1 100 60").remaining >= 0 })

	n.Pause()
	answer := func(key string) string {
		switch d := c.do(t, "RL.SLIDE", key, 100, 60).(type) {
		case errReply:
			return "error"
		case []any:
			require.EqualValues(t, -1, d[2], "a FAIL policy answers")
			if d[0] == int64(1) {
				return "open"
			}
		}
		return "closed"
	}
	require.Equal(t, []string{"closed", "closed", "error"}, []string{answer("api:1"), answer("other"), answer("web:1")})
	ops.set(t, "fail-policy", "open")
	require.Equal(t, []string{"open", "open", "open"}, []string{answer("api:1"), answer("other"), answer("web:1")})
	require.Equal(t, "open", c.setting(t, "fail-policy"))
	ops.set(t, "fail-policy", "closed api:* open", "LogLevel", "verbose")
	require.Equal(t, []string{"open", "closed", "closed"}, []string{answer("api:1"), answer("other"), answer("web:1")})
	require.Contains(t, c.do(t, "INFO", "stats"), "\r\nconfig_set_directives:2\r\n")

	for _, pairs := range [][]any{
		{"fail-policy", "error", "backend-timeout", "0"},
		{"fail-policy", "error", "port", "1"},
		{"fail-policy", "error", "nosuch", "1"},
		{"fail-policy", "error", "fail-policy", "open"},
		{"fail-policy", "error web:*"},
		{"backend-timeout", "200", "requirepass", "secret"},
	} {
		reply, failed := ops.do(t, append([]any{"CONFIG", "SET"}, pairs...)...).(errReply)
		require.True(t, failed, "%v", pairs)
		require.NotContains(t, reply, "secret")
		require.Equal(t, "closed api:* open", c.setting(t, "fail-policy"), "%v", pairs)
		require.Equal(t, "100", c.setting(t, "backend-timeout"), "%v", pairs)
		require.Equal(t, "closed", answer("other"), "%v", pairs)
	}
	ops.set(t, "fail-policy", "closed")
	require.Equal(t, "closed", answer("api:1"))

	p.reload(t)
	require.Equal(t, "closed web:* error", c.setting(t, "fail-policy"))
	require.Equal(t, "notice", c.setting(t, "loglevel"))
	require.Equal(t, []string{"closed", "error"}, []string{answer("api:1"), answer("web:1")})
	require.Contains(t, c.do(t, "INFO", "stats"), "\r\nconfig_set_directives:0\r\n")
	n.Resume()
	eventually(t, "the node", func() bool { return c.decide(t, "RL.SLIDE api:1 100 60 FAIL OPEN").remaining >= 0 })

	log := p.Output.String()
	require.Contains(t, log, `msg="CONFIG SET changed a directive; the next reload or restart reverts it" directive=fail-policy from="closed web:* error" to=open user=ops addr=`+ops.LocalAddr().String())
	require.Contains(t, log, `directive=loglevel from=notice to=verbose user=ops`)
	require.Contains(t, log, `msg="reload discards a CONFIG SET change" directive=loglevel from=verbose to=notice`)
	require.NotContains(t, log, "hush")
	require.NotContains(t, log, "secret")
}

// TestSettingsAreReloaded changes the file instead: SIGHUP has the same effect.
func TestSettingsAreReloaded(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	path := filepath.Join(t.TempDir(), "rlproxy.conf")
	write := func(lines ...string) {
		require.NoError(t, os.WriteFile(path, []byte(strings.Join(append(lines, "backend "+n.URL()), "\n")), 0o600))
	}
	write()
	p := startProxy(t, "--include", path)
	c := dial(t, p.addr)
	require.Equal(t, status("OK"), c.do(t, "SET", "k", "v"))
	n.Pause()
	require.Zero(t, c.decide(t, "RL.SLIDE k 100 60").allowed)
	write("fail-policy open", "passthrough no", "hot-key k 2", "hot-key-threshold 7", "backend-timeout 300")
	p.reload(t)
	require.EqualValues(t, 1, c.decide(t, "RL.SLIDE k 100 60").allowed)
	require.Contains(t, c.do(t, "GET", "k"), "ERR unknown command 'GET'")
	require.NotContains(t, p.Output.String(), "only after a restart")
	require.Contains(t, p.Output.String(), `level=notice msg="reload changes a directive" directive=backend-timeout from=100 to=300`)
	require.Contains(t, p.Output.String(), `level=notice msg="reload changes a directive" directive=fail-policy from=closed to=open`)
	require.Contains(t, c.do(t, "INFO", "stats"), "\r\nconfig_set_directives:0\r\n")
	write("backend-timeout soon")
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "a failed reload", func() bool {
		return strings.Contains(c.do(t, "INFO", "stats").(string), "\r\nconfig_last_reload_failed:1\r\n")
	})
	require.Equal(t, "300", c.setting(t, "backend-timeout"))
	write("passthrough-timeout 150")
	p.reload(t)
	require.Contains(t, c.do(t, "INFO", "stats"), "\r\nconfig_last_reload_failed:0\r\n")
	require.Zero(t, c.decide(t, "RL.SLIDE k 100 60").allowed)
	require.Contains(t, c.do(t, "GET", "k"), "UNAVAILABLE")
	n.Resume()
	eventually(t, "the node", func() bool { return c.do(t, "GET", "k") == "v" })
}

// TestBackendTimeoutChanges times how long requests wait for a node that hangs.
func TestBackendTimeoutChanges(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c := dial(t, p.addr)
	waited := func() time.Duration {
		eventually(t, "the node", func() bool { return c.decide(t, "RL.SLIDE k 1000000 60").remaining >= 0 && c.info(t, "nodes") == 1 })
		n.Pause()
		defer n.Resume()
		began := time.Now()
		require.EqualValues(t, -1, c.decide(t, "RL.SLIDE k 1000000 60").remaining)
		return time.Since(began)
	}
	for _, ms := range []int{300, 1500, 50} {
		c.set(t, "backend-timeout", ms)
		took, want := waited(), time.Duration(ms)*time.Millisecond
		require.GreaterOrEqual(t, took, want)
		require.Less(t, took, want+5*time.Second)
		t.Logf("backend-timeout %d: %v", ms, took)
	}
}

// TestHotKeysChangeUnderLoad adds and removes hot-key rules on two proxies, at different times,
// while clients of both send requests. No window ever admits more than its limit.
func TestHotKeysChangeUnderLoad(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 3)
	proxies := startProxies(t, 2, backends(nodes...))
	ended := make(chan struct{})
	var operators sync.WaitGroup
	split := make([]bool, len(proxies)) // whether the proxy had a split key
	for i, p := range proxies {
		c := dial(t, p.addr)
		operators.Go(func() { // until the load ends
			for turn := i; ; turn++ {
				select {
				case <-ended:
					return
				case <-time.After(time.Duration(120+70*i) * time.Millisecond):
				}
				replies, err := c.Exchange([]any{"CONFIG", "SET", "hot-key", []string{"hot:* 3", "", "hot:* 2"}[turn%3]}, []any{"INFO", "engine"})
				if err != nil || replies[0] != status("OK") {
					t.Errorf("%v %v", replies, err)
					return
				}
				split[i] = split[i] || !strings.Contains(replies[1].(string), "\r\nsplits:0\r\n")
			}
		})
	}
	l := load{
		proxies: proxies, clients: 3, depth: 8, keys: 2, duration: soakOr(20*time.Second, 3*time.Second),
		command: func(key int) []any { return []any{"RL.SLIDE", fmt.Sprint("hot:", key), 200, "400ms"} },
		limit:   200, window: 400 * time.Millisecond, maxCost: 2,
	}
	histories := l.run(t)
	close(ended)
	operators.Wait()
	require.Equal(t, []bool{true, true}, split)
	for _, h := range histories {
		require.NoError(t, h.checkLimit())
		require.Empty(t, h.lost())
		require.NotEmpty(t, h.denied())
	}
	for _, p := range proxies {
		c := dial(t, p.addr)
		c.set(t, "hot-key", "")
		eventually(t, "keys that are whole again", func() bool {
			for key := range l.keys {
				c.decide(t, fmt.Sprintf("RL.SLIDE hot:%d 200 400ms", key))
			}
			return c.info(t, "splits") == 0
		})
	}
}

// TestPassthroughIsSwitchedOffAndOn switches forwarding off while a node has yet to answer: that
// command is answered, and later ones are unknown until it is switched on again.
func TestPassthroughIsSwitchedOffAndOn(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, backends(n)...)
	c, slow := dial(t, p.addr), dial(t, p.addr)
	require.Equal(t, status("OK"), c.do(t, "SET", "k", "v"))
	require.Equal(t, "v", slow.do(t, "GET", "k"))
	batches := func() string { // to the node
		return regexp.MustCompile(`,batches=\d+,`).FindString(c.do(t, "INFO", "engine").(string))
	}
	n.Pause()
	before := batches()
	asked, replies := make(chan error, 1), make(chan any, 1)
	go func() { // until the node is back
		_, err := slow.Write(appendCommand(appendCommand(nil, "PING"), "GET", "k"))
		asked <- err
		for range 2 {
			reply, err := slow.ReadReply()
			if err != nil {
				reply = err
			}
			replies <- reply
		}
	}()
	require.NoError(t, <-asked)
	eventually(t, "the command on its way to the node", func() bool { return batches() != before })
	c.set(t, "passthrough", "no")
	require.Contains(t, c.do(t, "GET", "k"), "ERR unknown command 'GET'")
	select {
	case reply := <-replies:
		require.Fail(t, "answered by a node that hangs", "%v", reply)
	default:
	}
	n.Resume()
	require.Equal(t, status("PONG"), <-replies)
	require.Equal(t, "v", <-replies)

	c.set(t, "passthrough", "yes")
	require.Equal(t, "v", c.do(t, "GET", "k"))
	require.Contains(t, c.do(t, "FLUSHALL"), "see the directive passthrough-admin")
	c.set(t, "passthrough-admin", "yes")
	require.Equal(t, status("OK"), c.do(t, "FLUSHALL"))
	c.set(t, "passthrough-timeout", "200")
	n.Pause()
	began := time.Now()
	require.Equal(t, errReply("UNAVAILABLE "+n.Addr+": no answer in time"), c.do(t, "GET", "k"))
	require.GreaterOrEqual(t, time.Since(began), 200*time.Millisecond)
	require.Less(t, time.Since(began), 5*time.Second)
	n.Resume()
}

// TestConcurrentConfigurationChanges runs CONFIG SET, SIGHUP, CONFIG GET and decisions at
// the same time. In the end the file applies.
func TestConcurrentConfigurationChanges(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startConfigured(t, "backend "+n.URL(), "backend-timeout 10000", "fail-policy local", "hot-key a:* 2")
	const clients, rounds = 4, 100
	done := make(chan struct{}, clients*rounds)
	var all sync.WaitGroup
	for i := range clients {
		c := dial(t, p.addr)
		all.Go(func() {
			for round := range rounds {
				done <- struct{}{}
				replies, err := c.Exchange(
					[]any{"CONFIG", "SET", "fail-policy", []string{"open", "closed x open"}[round%2], "hot-key", fmt.Sprintf("b%d 2", i), "backend-timeout", 5000 + i},
					[]any{"RL.SLIDE", "b1", 10_000, 60}, []any{"GET", "k"},
					[]any{"CONFIG", "SET", "passthrough-timeout", 20_000 + round, "slowlog-max-len", round, "loglevel", "warning", "layout-guard", "off"},
					[]any{"CONFIG", "GET", "*"})
				if err != nil || replies[0] != status("OK") || replies[2] != nil || replies[3] != status("OK") {
					t.Errorf("%v %v", replies, err)
					return
				}
			}
		})
	}
	ended := make(chan struct{})
	go func() { all.Wait(); close(ended) }()
	for n, running := 1, true; running; n++ {
		select {
		case <-done:
		case <-ended:
			running = false
		}
		if !running || n%10 == 0 {
			p.Signal(t, syscall.SIGHUP)
		}
	}
	c := dial(t, p.addr)
	for name, want := range map[string]string{"fail-policy": "local", "hot-key": "a:* 2", "backend-timeout": "10000", "passthrough-timeout": "5000", "loglevel": "notice"} {
		eventually(t, name, func() bool { return c.setting(t, name) == want })
	}
	p.stop(t)
}
