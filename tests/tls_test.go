package tests

import (
	"crypto/tls"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// dialTLS connects and sends a PING: only then does a refused certificate become an error.
func dialTLS(t *testing.T, addr string, config *tls.Config) (*conn, error) {
	t.Helper()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: patience}, Config: config}
	nc, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = nc.Close() })
	c := &conn{proxytest.NewConn(nc)}
	_, err = c.Exchange([]any{"PING"})
	return c, err
}

// hangup sends SIGHUP and waits until the log has the message once more.
func (p *proxy) hangup(t *testing.T, says string) {
	t.Helper()
	before := strings.Count(p.Output.String(), says)
	p.Signal(t, syscall.SIGHUP)
	eventually(t, says, func() bool { return strings.Count(p.Output.String(), says) > before })
}

const (
	reloaded    = `msg="configuration reloaded"`
	notReloaded = `level=error msg="configuration reload failed; the previous configuration stays in effect"`
)

// startTLS starts a proxy that listens for TLS only.
func startTLS(t *testing.T, args ...string) *proxy {
	t.Helper()
	return startProxy(t, append([]string{"--tls-port", strconv.Itoa(redistest.FreePort(t))}, args...)...)
}

func TestTLSPortSpeaksNothingElse(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	p := startTLS(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no")
	require.Equal(t, 1, strings.Count(p.Output.String(), "msg=listening"), "a port without TLS is open, too")
	c, err := dialTLS(t, p.addr, a.trust())
	require.NoError(t, err)
	require.EqualValues(t, 4, c.decide(t, "RL.SLIDE k 5 60").remaining)

	old := a.trust()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	_, err = dialTLS(t, p.addr, old)
	require.Error(t, err, "an old version of TLS was accepted")

	out, err := exec.Command("redis-cli", "--tls", "--cacert", a.file, "-p", port(t, p.addr), "RL.SLIDE", "k", "5", "60").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "1\n5\n3\n0\n")

	// A connection that does not speak TLS is closed. The others are unaffected.
	plain := dial(t, p.addr)
	_, err = plain.Exchange([]any{"PING"})
	require.Error(t, err)
	require.EqualValues(t, 2, c.decide(t, "RL.SLIDE k 5 60").remaining)
	require.Contains(t, c.do(t, "INFO", "stats"), "rejected_tls_handshakes:2\r\n")
	p.stop(t)
}

func TestTLSVersionsAreAsConfigured(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	p := startTLS(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no",
		"--tls-protocols", "TLSv1.2")
	c, err := dialTLS(t, p.addr, a.trust())
	require.NoError(t, err)
	require.EqualValues(t, tls.VersionTLS12, c.Conn.Conn.(*tls.Conn).ConnectionState().Version)
	p.stop(t)
}

func TestTLSClientCertificatesAreCheckedAsConfigured(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	with := func(from *authority) *tls.Config {
		pair, err := tls.LoadX509KeyPair(from.issue(t, "client", time.Now().Add(time.Hour)))
		require.NoError(t, err)
		config := a.trust()
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		return config
	}
	ours, theirs := with(a), with(stranger)
	for auth, admitted := range map[string]map[*tls.Config]bool{
		"yes":      {ours: true, theirs: false, a.trust(): false},
		"optional": {ours: true, theirs: false, a.trust(): true},
		"no":       {ours: true, theirs: true, a.trust(): true},
	} {
		p := startTLS(t, "--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.file, "--tls-auth-clients", auth)
		for config, want := range admitted {
			_, err := dialTLS(t, p.addr, config)
			require.Equal(t, want, err == nil, "%s: %v", auth, err)
		}
		p.stop(t)
	}
}

func TestTLSFilesAreChecked(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	_, other := a.issue(t, "other", time.Now().Add(time.Hour))
	late, lateKey := a.issue(t, "late", time.Now().Add(-time.Hour))
	locked, lockedKey := a.issue(t, "locked", time.Now().Add(time.Hour))
	encrypt(t, lockedKey)
	early, earlyKey := a.issue(t, "early", time.Now().Add(48*time.Hour)) // in a day
	backend := func(own, ownKey string) []string {
		return []string{"--tls-auth-clients", "no", "--tls-cert-file", cert, "--tls-key-file", key, "--backend", "rediss://127.0.0.1:1",
			"--backend-tls-cert-file", own, "--backend-tls-key-file", ownKey}
	}
	for want, args := range map[string][]string{
		"tls-port needs tls-cert-file and tls-key-file":                                nil,
		"tls-auth-clients yes needs tls-ca-cert-file":                                  {"--tls-cert-file", cert, "--tls-key-file", key},
		"there is no certificate in " + key:                                            {"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", key},
		"can't use " + cert + " with " + other:                                         {"--tls-cert-file", cert, "--tls-key-file", other},
		"can't read the authorities of clients: open ":                                 {"--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", a.dir + "/none"},
		"the certificate in " + late + " expired on ":                                  {"--tls-cert-file", late, "--tls-key-file", lateKey},
		"the certificate in " + early + " is not valid before ":                        {"--tls-auth-clients", "no", "--tls-cert-file", early, "--tls-key-file", earlyKey},
		"backend-tls-cert-file: the certificate in " + late + " expired on ":           backend(late, lateKey),
		"backend-tls-cert-file: the certificate in " + early + " is not valid before ": backend(early, earlyKey),
		lockedKey + ": the key is encrypted; 'openssl pkey -in " + lockedKey + "'":     {"--tls-cert-file", locked, "--tls-key-file", lockedKey},
		"backend-tls-cert-file: can't use " + locked:                                   backend(locked, lockedKey),
		"tls-protocols must be some of TLSv1.2, TLSv1.3":                               {"--tls-protocols", "TLSv1.1"},
	} {
		for _, check := range [][]string{nil, {"--check"}} {
			code, out := outcome(t, append(append([]string{"--tls-port", "1"}, args...), check...)...)
			require.Equal(t, 1, code, out)
			require.Contains(t, out, want)
			require.Equal(t, 1, strings.Count(out, "\n"), "one sentence: %s", out)
		}
	}
}

// The files with the certificates of nodes, and of clients, are replaced under their paths.
func TestAReloadSaysWhichCertificatesAreReplaced(t *testing.T) {
	t.Parallel()
	a, next := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "shown to nodes", time.Now().Add(time.Hour))
	p := startProxy(t, "--backend", startNode(t).URL(), "--backend-tls-cert-file", cert, "--backend-tls-key-file", key,
		"--backend-tls-ca-cert-file", a.file, "--tls-ca-cert-file", a.file)
	p.hangup(t, reloaded)
	require.NotContains(t, p.Output.String(), "reload changes", "nothing has changed")

	newCert, newKey := next.issue(t, "shown from now on", time.Now().Add(2*time.Hour))
	for to, from := range map[string]string{cert: newCert, key: newKey, a.file: next.file} {
		require.NoError(t, os.Rename(from, to))
	}
	p.hangup(t, reloaded)
	for directive, names := range map[string][2]string{
		"backend-tls-cert-file": {"shown to nodes", "shown from now on"}, "backend-tls-ca-cert-file": {"authority", "authority"},
		"tls-ca-cert-file": {"authority", "authority"},
	} {
		require.Regexp(t, `level=notice msg="reload changes certificates" directive=`+directive+
			` from="CN=`+names[0]+`, expires \S+, SHA-256 [0-9a-f]{8}" to="CN=`+names[1]+`, expires `, p.Output.String())
	}
	require.NotContains(t, p.Output.String(), "directive=tls-cert-file")
}

// TestReloadTakesEffectAsAWholeOrNotAtAll changes the files of a running proxy. A valid
// configuration takes effect; of an invalid one, nothing does.
func TestReloadTakesEffectAsAWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	a, next := newAuthority(t), newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	conf := filepath.Join(a.dir, "rlproxy.conf")
	configure := func(more string) {
		require.NoError(t, os.WriteFile(conf, []byte("bind 127.0.0.1\nport 0\ntls-auth-clients no\ntls-cert-file "+cert+"\ntls-key-file "+key+"\n"+more), 0o600))
	}
	configure("loglevel notice\n")
	started := &proxytest.Proxy{Process: spawn(t, proxytest.Binary, conf, "--tls-port", strconv.Itoa(redistest.FreePort(t)))}
	started.Ready(t)
	p := &proxy{started, started.Addr}
	open, err := dialTLS(t, p.addr, a.trust())
	require.NoError(t, err)

	// A certificate of another authority is refused until its key is in place.
	newCert, newKey := next.issue(t, "server", time.Now().Add(time.Hour))
	move := func(from, to string) {
		b, err := os.ReadFile(from)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, b, 0o600))
	}
	move(newCert, cert)
	configure("loglevel warning\n")
	p.hangup(t, notReloaded)
	_, err = dialTLS(t, p.addr, a.trust())
	require.NoError(t, err)
	require.Equal(t, []any{"loglevel", "notice"}, open.do(t, "CONFIG", "GET", "loglevel"))

	move(newKey, key)
	configure("loglevel verbose\nmaxclients 17\n")
	p.hangup(t, reloaded)
	_, err = dialTLS(t, p.addr, next.trust())
	require.NoError(t, err)
	_, err = dialTLS(t, p.addr, a.trust())
	require.Error(t, err)
	require.Contains(t, p.Output.String(), `msg="changed directive takes effect only after a restart" directive=maxclients from=10000 to=17`)
	require.Contains(t, p.Output.String(), `msg="reload changes certificates" directive=tls-cert-file from="CN=server, expires `)
	require.NotContains(t, p.Output.String(), "directive=backend-tls")
	require.Contains(t, p.Output.String(), `msg="reload changes a directive" directive=loglevel from=notice to=verbose`)
	require.Equal(t, []any{"loglevel", "verbose"}, open.do(t, "CONFIG", "GET", "loglevel"))
	require.Equal(t, []any{"maxclients", "10000"}, open.do(t, "CONFIG", "GET", "maxclients"))

	configure("loglevel loud\n")
	p.hangup(t, notReloaded)
	require.Contains(t, p.Output.String(), "rlproxy.conf:6: loglevel must be")
	require.Equal(t, []any{"loglevel", "verbose"}, open.do(t, "CONFIG", "GET", "loglevel"))
	p.stop(t)
}
