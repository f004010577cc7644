package tests

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// hush begins every secret of this test.
const hush = "hush-"

// A proxy has every kind of secret, and each kind of fault about secrets happens. Nothing that it shows has one.
func TestNothingShowsASecret(t *testing.T) {
	t.Parallel()
	s := startSecretive(t)
	c := s.boss(t)
	for key := range 10 {
		for range 3 {
			c.do(t, "RL.CHECK", "api", key)
		}
	}
	s.strangers(t)
	s.show(t, c, "with everything in order")

	// The nodes, and the sentinel, have other passwords from now on.
	s.a.Do("ACL", "SETUSER", "limits", "resetpass", ">"+hush+"changed-a")
	s.b.Do("ACL", "SETUSER", "limits", "resetpass", ">"+hush+"changed-b")
	s.sentinel.Do("ACL", "SETUSER", "watcher", "resetpass", ">"+hush+"changed-sentinel")
	for _, n := range []*redistest.Server{s.a.Server, s.b.Server} {
		n.Do("CLIENT", "KILL", "USER", "limits")
	}
	s.sentinel.Do("CLIENT", "KILL", "USER", "watcher")
	eventually(t, "the nodes to refuse the passwords", func() bool {
		for key := range 10 {
			c.do(t, "RL.SLIDE", key, 1, 60)
			c.do(t, "RL.SLIDE", key, 1, 60, "FAIL", "LOCAL")
			c.do(t, "GET", key)
		}
		return strings.Count(fmt.Sprint(c.do(t, "RL.NODES")), "WRONGPASS") == 2
	})
	s.show(t, c, "with nodes that refuse passwords")

	for _, text := range []string{
		"requirepass hush-one hush-two", "user new on >hush-boss hush-rule", "user new on #hush-hash",
		"user new on <hush-unknown", "backend redis://limits:hush-url@127.0.0.1:99999", "backend redis://limits:hush-url@127.0.0.1:1/x",
		"backend hush-url@127.0.0.1", "backend redis://limits:hush%url@127.0.0.1:1", "backend redis://limits:hush-url@127.0.0.1:1 redis://limits:hush-url@127.0.0.1:1",
		"backend-password hush-one hush-two", "backend-password hush-both", "sentinel-password hush-one hush-two", "sentinel-password-file " + s.dir + "/none",
	} {
		s.configure(t, text)
		s.hangup(t, notReloaded)
		code, out := outcome(t, s.conf, "--check")
		require.Equal(t, 1, code, "%s: %s", text, out)
		s.texts = append(s.texts, out)
	}
	_, out := outcome(t, "--check", "--backend", "redis://limits:hush-url@127.0.0.1:1", "--backend", "redis://limits:hush-other@127.0.0.1:1")
	require.Contains(t, out, "backend 127.0.0.1:1/0 is listed twice")
	s.texts = append(s.texts, out)
	s.show(t, c, "after reloads that failed")

	require.NoError(t, os.WriteFile(s.file, []byte("hush-changed-b\n"), 0o600))
	s.url, s.required, s.watcher, s.users = "hush-changed-a", "hush-next", "hush-changed-sentinel", "user boss on >hush-next-boss ~* +@all\n"
	s.configure(t, "")
	s.hangup(t, reloaded)
	code, out := outcome(t, s.conf, "--check")
	require.Zero(t, code, out)
	s.texts = append(s.texts, out)
	require.NotNil(t, c.do(t, "PING"))
	c = dial(t, s.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "boss", "hush-next-boss"))
	s.show(t, c, "after a reload")
	s.stop(t)
	s.quiet(t, "at the end")
}

// secretive is a proxy with all kinds of secrets, in front of a node behind a sentinel and of another one.
type secretive struct {
	*site
	a, b                          *node
	sentinel                      *redistest.Server
	dir, conf, file, log          string
	url, required, watcher, users string
	texts                         []string // what was shown
}

func startSecretive(t *testing.T) *secretive {
	t.Helper()
	s := &secretive{
		a: startNode(t), b: startNode(t), dir: t.TempDir(),
		url: hush + "url", required: hush + "required", watcher: hush + "watcher",
		users: "user boss on >hush-boss ~* &* +@all\nuser scrape on >hush-scrape +info\nuser gone on >hush-gone ~* +@all\n",
	}
	s.conf, s.file, s.log = filepath.Join(s.dir, "rlproxy.conf"), filepath.Join(s.dir, "password"), filepath.Join(s.dir, "decisions.log")
	s.sentinel = redistest.StartSentinel(t, s.a.Addr)
	s.a.Do("ACL", "SETUSER", "limits", "on", ">"+s.url, "~*", "&*", "+@all")
	s.b.Do("ACL", "SETUSER", "limits", "on", ">"+hush+"file", "~*", "&*", "+@all")
	s.sentinel.Do("ACL", "SETUSER", "watcher", "on", ">"+s.watcher, "+@all", "&*")
	require.NoError(t, os.WriteFile(s.file, []byte(hush+"file\n"), 0o600))
	s.configure(t, "")
	s.site = startHTTP(t, "--include", s.conf)
	return s
}

// configure writes the configuration, with more at its end.
func (s *secretive) configure(t *testing.T, more string) {
	t.Helper()
	text := "bind 127.0.0.1\nloglevel debug\nslowlog-log-slower-than 0\nfail-policy closed\npassthrough yes\npassthrough-admin yes\n" +
		"decision-log " + s.log + "\npolicy api SLIDE 1 60\nrequirepass " + s.required + "\n" + s.users +
		"backend redis+sentinel://limits:" + s.url + "@" + s.sentinel.Addr + "/" + redistest.SentinelName + "\nbackend " + s.b.URL() +
		"\nbackend-user limits\nbackend-password-file " + s.file + "\nsentinel-user watcher\nsentinel-password " + s.watcher + "\n" + more + "\n"
	require.NoError(t, os.WriteFile(s.conf, []byte(text), 0o600))
}

// boss returns a connection of the user who may do everything.
func (s *secretive) boss(t *testing.T) *conn {
	t.Helper()
	c := dial(t, s.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "boss", "hush-boss"))
	return c
}

// strangers have clients log in with wrong passwords, and try to change some.
func (s *secretive) strangers(t *testing.T) {
	t.Helper()
	for _, line := range []string{
		"AUTH hush-wrong", "AUTH boss hush-wrong", "HELLO 3 AUTH boss hush-wrong", "HELLO 3 AUTH hush-wrong", "AUTH boss hush-wrong hush-more",
		"RL.SLIDE k 1 60",
	} {
		s.texts = append(s.texts, fmt.Sprint(dial(t, s.addr).do(t, words(line)...)))
	}
	c := s.boss(t)
	for _, line := range []string{
		"CONFIG SET requirepass hush-set", "CONFIG SET backend-password hush-set", "CONFIG SET user hush-set", "CONFIG SET loglevel debug requirepass hush-set",
		"CONFIG GET requirepass", "CONFIG GET *password*", "ACL SETUSER new on >hush-set", "ACL GETUSER boss", "ACL LIST", "ACL LOG",
		"MIGRATE 127.0.0.1 1 k 0 10 AUTH hush-set", "MIGRATE 127.0.0.1 1 k 0 10 AUTH2 boss hush-set", "HELLO 2 AUTH boss hush-boss",
	} {
		s.texts = append(s.texts, fmt.Sprint(c.do(t, words(line)...)))
	}
	for _, path := range []string{"metrics", "api/fleet", "check/api/k"} {
		for _, user := range []string{"", "boss:hush-wrong", "scrape:hush-scrape"} {
			_, text := s.get(t, path, user)
			s.texts = append(s.texts, text)
		}
	}
}

// show gathers all that a proxy shows, and requires that no secret is in it.
func (s *secretive) show(t *testing.T, c *conn, when string) {
	t.Helper()
	for _, line := range []string{
		"CONFIG GET *", "INFO everything", "RL.NODES", "CLIENT LIST", "CLIENT INFO", "SLOWLOG GET 1000", "ACL LIST", "RL.HOTKEYS COUNT 100",
		"RL.HOTKEYS FLEET", "RL.POLICY LIST", "RL.SCAN 0", "RL.INSPECT api:1", "LATENCY HISTOGRAM", "RL.SLIDE api:1 1 60", "RL.SLIDE api:1 1 60 FAIL ERROR",
		"RL.RESET api:1", "GET k",
	} {
		s.texts = append(s.texts, line, fmt.Sprint(c.do(t, words(line)...)))
	}
	login := "boss:hush-boss"
	if code, _ := s.get(t, "metrics", login); code == http.StatusUnauthorized {
		login = "boss:hush-next-boss"
	}
	for _, path := range []string{"metrics", "denials", "api/fleet", "api/policies", "api/key?id=YXBpOjE", "healthz", "readyz", "check/api/1", ""} {
		code, text := s.get(t, path, login)
		require.NotEqual(t, http.StatusUnauthorized, code, path)
		s.texts = append(s.texts, path, text)
	}
	stream := s.watch(t, login)
	for !strings.Contains(stream.Text(), `"nodes"`) {
		require.True(t, stream.Scan(), "the stream ended")
		s.texts = append(s.texts, stream.Text())
	}
	for _, n := range []*node{s.a, s.b} {
		for _, key := range strings.Fields(n.Do("KEYS", "*")) {
			text, _ := n.Ask("DUMP", key) // a denial may have ended
			s.texts = append(s.texts, key, text)
		}
	}
	s.quiet(t, when)
}

// quiet requires that no secret was shown.
func (s *secretive) quiet(t *testing.T, when string) {
	t.Helper()
	decisions, err := os.ReadFile(s.log)
	require.NoError(t, err)
	require.NotEmpty(t, decisions)
	for _, text := range append(s.texts, string(decisions), s.Output.String()) {
		if i := strings.Index(text, hush); i >= 0 {
			require.Fail(t, "a secret is shown "+when, "%s", text[max(0, i-200):min(len(text), i+100)])
		}
	}
	s.texts = nil
}
