package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// secrets are the passwords of these tests, which nothing may show.
var secrets = []string{"first-secret", "second-secret"}

// guarded is a node with a password, and the file of a proxy that has one.
type guarded struct {
	*node
	file string
}

func startWithPassword(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{startNode(t), filepath.Join(t.TempDir(), "file")}
	g.Do("ACL", "SETUSER", "limits", "on", ">"+secrets[0], "~*", "&*", "+@all")
	g.Do("ACL", "SETUSER", "default", "-@all", "+acl", "+client")
	return g
}

// write writes the file.
func (g *guarded) write(t *testing.T, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(g.file, []byte(text), 0o600))
}

// cut closes the connections of the proxies, as an ACL LOAD does.
func (g *guarded) cut() { g.Do("CLIENT", "KILL", "USER", "limits") }

// rotate replaces the password on the node.
func (g *guarded) rotate() { g.Do("ACL", "SETUSER", "limits", "resetpass", ">"+secrets[1]) }

// decides waits until a node decides again.
func (c *conn) decides(t *testing.T) {
	t.Helper()
	eventually(t, "a decision of the node", func() bool {
		d, err := toDecision(c.do(t, words("RL.SLIDE k 1000000 1h")...))
		return err == nil && d.remaining >= 0
	})
}

// quiet requires that nothing that a proxy shows has a password.
func (c *conn) quiet(t *testing.T, p *proxy) {
	t.Helper()
	shown := p.Output.String()
	for _, line := range []string{"CONFIG GET *", "INFO everything", "RL.NODES", "SLOWLOG GET 128", "CLIENT LIST"} {
		shown += fmt.Sprint(c.do(t, words(line)...))
	}
	for _, secret := range secrets {
		require.NotContains(t, shown, secret)
	}
}

// A password in a file is read for each connection: open ones stay when it changes, and new ones need no signal.
func TestAPasswordFileIsReadForEachConnection(t *testing.T) {
	t.Parallel()
	g := startWithPassword(t)
	g.write(t, secrets[0]+"\n")
	p := startProxy(t, append(backends(g.node), "--advance", "no", "--fail-policy", "error",
		"--backend-user", "limits", "--backend-password-file", g.file)...)
	c := dial(t, p.addr)
	c.decides(t)
	g.rotate()
	for range 100 {
		require.EqualValues(t, 1, c.decide(t, "RL.SLIDE k 1000000 1h").allowed, "open connections stay")
	}
	g.cut()
	eventually(t, "the node to refuse the old password", func() bool {
		c.do(t, words("RL.SLIDE k 1000000 1h")...)
		n := fields(t, c.do(t, "RL.NODES").([]any)[0])
		return n["state"] == "down" && strings.Contains(n["why"].(string), "WRONGPASS")
	})
	eventually(t, "the log", func() bool { return strings.Contains(p.Output.String(), "WRONGPASS") })
	g.write(t, secrets[1])
	c.decides(t)

	require.NoError(t, os.Remove(g.file))
	g.cut()
	eventually(t, "the reason", func() bool {
		c.do(t, words("RL.SLIDE k 1000000 1h")...)
		why := fields(t, c.do(t, "RL.NODES").([]any)[0])["why"].(string)
		return strings.Contains(why, "can't read a password: open "+g.file)
	})
	g.write(t, secrets[1])
	c.decides(t)
	c.quiet(t, p)
	p.stop(t)
}

// A changed login in the configuration is for new connections. A proxy that started without one gets in by SIGHUP.
func TestALoginChangesBySIGHUP(t *testing.T) {
	t.Parallel()
	g := startWithPassword(t)
	login := func(password string) string { return "backend-user limits\nbackend-password " + password + "\n" }
	g.write(t, "")
	g.Do("ACL", "SETUSER", "default", "resetpass", ">"+secrets[0]) // after this, only open connections are the default user's
	p := startProxy(t, append(backends(g.node), "--advance", "no", "--fail-policy", "error", "--include", g.file)...)
	c := dial(t, p.addr)
	eventually(t, "the reason", func() bool {
		c.do(t, words("RL.SLIDE k 1000000 1h")...)
		return strings.Contains(fmt.Sprint(c.do(t, "RL.NODES")), "NOAUTH")
	})
	reload := func(text, want string) {
		before := strings.Count(p.Output.String(), want)
		g.write(t, text)
		p.Signal(t, syscall.SIGHUP)
		eventually(t, want, func() bool { return strings.Count(p.Output.String(), want) > before })
	}
	reload(login(secrets[0]), "configuration reloaded")
	c.decides(t)
	connections := g.Do("CLIENT", "LIST", "TYPE", "normal")
	g.rotate()
	reload(login(secrets[1]), "configuration reloaded")
	for range 100 {
		require.EqualValues(t, 1, c.decide(t, "RL.SLIDE k 1000000 1h").allowed)
	}
	for _, id := range ids(connections) {
		require.Contains(t, ids(g.Do("CLIENT", "LIST", "TYPE", "normal")), id, "a connection was closed")
	}
	g.cut()
	c.decides(t)
	reload("backend-user limits\nbackend-password-file "+g.file+".missing\n", "configuration reload failed")
	reload("backend-user limits\n", "configuration reload failed")
	g.cut()
	c.decides(t)
	c.quiet(t, p)
	p.stop(t)
}

// ids returns the ids of the lines of CLIENT LIST.
func ids(list string) (out []string) {
	for line := range strings.Lines(list) {
		id, _, _ := strings.Cut(line, " ")
		out = append(out, id)
	}
	return out
}

// Sentinels have a login of their own, which is read in the same way.
func TestSentinelsHaveALoginOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := redistest.StartGuarded(t)
	file := filepath.Join(t.TempDir(), "password")
	require.NoError(t, os.WriteFile(file, []byte(secrets[0]), 0o600))
	for _, sentinel := range s.Sentinels {
		sentinel.Do("ACL", "SETUSER", "watcher", "on", ">"+secrets[0], "-@all", "+sentinel|get-master-addr-by-name", "+client|setname")
		sentinel.Do("ACL", "SETUSER", "default", "-sentinel")
	}
	p := startProxy(t, "--backend", s.URL(), "--backend-timeout", "10000", "--fail-policy", "error", "--sentinel-user", "watcher", "--sentinel-password-file", file)
	c := dial(t, p.addr)
	c.decides(t)
	c.quiet(t, p)
	p.stop(t)
}
