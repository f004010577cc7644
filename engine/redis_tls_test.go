package engine

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
	"github.com/youmark/pkcs8"
)

// certificates writes an authority's certificate, and one that it gave for
// 127.0.0.1 and the name limits.test with its key, for both sides. It returns the
// paths.
func certificates(t *testing.T) (authority, certificate, key string) {
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	newKey := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		require.NoError(t, err)
		return k
	}
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	caKey := newKey()
	caDER, err := x509.CreateCertificate(rand.Reader, ca, ca, caKey.Public(), caKey)
	require.NoError(t, err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "limits.test"}, DNSNames: []string{"limits.test"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafKey := newKey()
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, ca, leafKey.Public(), caKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(leafKey)
	require.NoError(t, err)
	return write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem", "PRIVATE KEY", keyDER)
}

// encrypted writes a key again, so that pass opens it, and returns the path.
func encrypted(t *testing.T, keyFile, pass string) string {
	b, err := os.ReadFile(keyFile)
	require.NoError(t, err)
	block, _ := pem.Decode(b)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	require.NoError(t, err)
	der, err := pkcs8.MarshalPrivateKey(key, []byte(pass), nil)
	require.NoError(t, err)
	path := keyFile + ".locked"
	require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: der}), 0o600))
	return path
}

func TestBackendTLS(t *testing.T) {
	authority, certificate, key := certificates(t)
	port := redistest.FreePort(t)
	s := redistest.Start(t, "--tls-port", strconv.Itoa(port), "--tls-ca-cert-file", authority,
		"--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "yes")
	s.Do("ACL", "SETUSER", "proxy", "on", ">hush", "~rl:*", "&rl:*", "+@all")
	open := func(host string, files BackendTLS) *Redis {
		e, err := OpenRedis(RedisConfig{
			Backends: []string{"rediss://proxy:hush@" + net.JoinHostPort(host, strconv.Itoa(port)) + "/2"},
			Timeout:  2 * time.Second, TLS: files,
		})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return e
	}
	both := BackendTLS{CACertFile: authority, CertFile: certificate, KeyFile: key}
	e := open("127.0.0.1", both)
	require.EqualValues(t, 9, do(e, charge("k", 10)).Remaining)
	require.Equal(t, "# Keyspace\r\ndb2:keys=1", s.Do("INFO", "keyspace")[:len("# Keyspace\r\ndb2:keys=1")])

	named := both
	named.ServerName = "limits.test"
	require.EqualValues(t, 8, do(open("127.0.0.1", named), charge("k", 10)).Remaining)
	named.ServerName = "other.test"
	require.ErrorContains(t, do(open("127.0.0.1", named), charge("k", 10)).Err, "not other.test")

	require.ErrorContains(t, do(open("127.0.0.1", BackendTLS{}), charge("k", 10)).Err, "unknown authority")
	require.Error(t, do(open("127.0.0.1", BackendTLS{CACertFile: authority}), charge("k", 10)).Err, "the node wants a certificate")

	// An encrypted key, and its password.
	locked := both
	locked.KeyFile, locked.KeyPass = encrypted(t, key, "hush"), "hush"
	require.EqualValues(t, 7, do(open("127.0.0.1", locked), charge("k", 10)).Remaining)

	// New files hold for new connections; bad ones change nothing.
	locked.KeyPass = "hushhush"
	require.ErrorContains(t, e.SetBackendTLS(locked), locked.KeyFile+": backend-tls-key-file-pass does not open the key: ")
	require.Error(t, e.SetBackendTLS(BackendTLS{CACertFile: key}))
	require.Error(t, e.SetBackendTLS(BackendTLS{CertFile: certificate}))
	require.Error(t, e.SetBackendTLS(BackendTLS{CACertFile: authority + ".missing"}))
	s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	require.EqualValues(t, 6, do(e, charge("k", 10)).Remaining, "a connection that the node closed is not used")
}

// A connection that a node closed while nothing was sent on it is noticed before it
// is used, with TLS as without: no request is lost on it.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	s := redistest.Start(t)
	e := openBackend(t, 2*time.Second, s.URL())
	for i := range 20 {
		require.EqualValues(t, 999-i, do(e, charge("k", 1000)).Remaining)
		s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
}
