package redistest

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

	"github.com/stretchr/testify/require"
)

// TLS makes a server accept TLS connections at Secure, and the nodes of a cluster announce that port. authority,
// certificate and key are the paths of an authority's certificate, a certificate that it signed, and the key of that.
// Clients need a certificate too. The port without TLS stays open for the test's own commands.
func TLS(authority, certificate, key string) Option {
	return func(s *Server) {
		port := strconv.Itoa(FreePort(s.t))
		s.Secure = net.JoinHostPort("127.0.0.1", port)
		s.args = append(s.args, "--tls-port", port, "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", authority, "--tls-cert-file", certificate, "--tls-key-file", key,
			"--tls-cluster", "yes", "--tls-replication", "yes")
	}
}

// Certificates writes an authority's certificate, a certificate that it issued for 127.0.0.1 and the name limits.test,
// and the key of that certificate. Servers and clients can use it. Certificates returns the paths.
func Certificates(t testing.TB) (authority, certificate, key string) {
	t.Helper()
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
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, IsCA: true,
		BasicConstraintsValid: true,
		NotBefore:             time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageCertSign,
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
	return write("ca.pem", "CERTIFICATE", caDER), write("cert.pem", "CERTIFICATE", leafDER), write("key.pem",
		"PRIVATE KEY", keyDER)
}
