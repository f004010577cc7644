package backend

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// startTLS runs a server that also accepts TLS connections at addr, from clients with a
// certificate. files has what such a client needs.
func startTLS(t *testing.T) (s *redistest.Server, addr string, files NodeTLS) {
	t.Helper()
	authority, certificate, key := redistest.Certificates(t)
	port := strconv.Itoa(redistest.FreePort(t))
	s = redistest.Start(t, "--tls-port", port, "--tls-ca-cert-file", authority,
		"--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "yes")
	return s, net.JoinHostPort("127.0.0.1", port), NodeTLS{CACertFile: authority, CertFile: certificate, KeyFile: key}
}

// count increments a counter on the fleet's only node, and returns it.
func count(t *testing.T, f *Fleet) (int64, error) {
	t.Helper()
	return f.Topology().Nodes[0].Client().Incr(t.Context(), "rl:{k}").Result()
}

func TestTLSBackends(t *testing.T) {
	s, addr, both := startTLS(t)
	s.Do("ACL", "SETUSER", "proxy", "on", ">hush", "~rl:*", "&rl:*", "+@all")
	open := func(files NodeTLS) *Fleet {
		return openTest(t, Config{
			Backends: []string{"rediss://proxy:hush@" + addr + "/2"},
			Timeout:  2 * time.Second, TLS: files,
		})
	}
	counts := func(want int64, f *Fleet, why ...any) {
		t.Helper()
		n, err := count(t, f)
		require.NoError(t, err, why...)
		require.Equal(t, want, n, why...)
	}
	refused := func(why string, f *Fleet) {
		t.Helper()
		_, err := count(t, f)
		require.ErrorContains(t, err, why)
		require.True(t, Failed(err))
	}
	f := open(both)
	counts(1, f)
	require.Equal(t, "# Keyspace\r\ndb2:keys=1", s.Do("INFO", "keyspace")[:len("# Keyspace\r\ndb2:keys=1")])

	named := both
	named.ServerName = "limits.test"
	counts(2, open(named))
	named.ServerName = "other.test"
	refused("not other.test", open(named))

	refused("unknown authority", open(NodeTLS{}))
	refused("", open(NodeTLS{CACertFile: both.CACertFile})) // the node wants a certificate

	// New files apply to new connections. Invalid ones change nothing.
	require.Error(t, f.SetTLS(NodeTLS{CACertFile: both.KeyFile}))
	require.Error(t, f.SetTLS(NodeTLS{CertFile: both.CertFile}))
	require.Error(t, f.SetTLS(NodeTLS{CACertFile: both.CACertFile + ".missing"}))
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	counts(3, f, "a connection that the node closed is not used")
}
