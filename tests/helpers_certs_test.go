package tests

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// authority issues certificates for a test.
type authority struct {
	dir  string // folder of all files
	file string // the authority's own certificate, in PEM
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{dir: t.TempDir()}
	a.file, _ = a.issue(t, "authority", time.Now().Add(time.Hour))
	return a
}

// issue makes a certificate for 127.0.0.1 and returns the names of its file and of its
// key's file. The first certificate is the authority's own.
func (a *authority) issue(t *testing.T, name string, until time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    until.Add(-24 * time.Hour), NotAfter: until,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  a.cert == nil,
		BasicConstraintsValid: true,
	}
	first := a.cert == nil
	if first {
		a.cert, a.key = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	require.NoError(t, err)
	if first {
		a.cert, err = x509.ParseCertificate(der)
		require.NoError(t, err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(a.dir, name+".crt"), filepath.Join(a.dir, name+".key")
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return certFile, keyFile
}

// encrypt marks the key in a file as encrypted.
func encrypt(t *testing.T, keyFile string) {
	t.Helper()
	b, err := os.ReadFile(keyFile)
	require.NoError(t, err)
	block, _ := pem.Decode(b)
	block.Type = "ENCRYPTED PRIVATE KEY"
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(block), 0o600))
}

// trust returns a client's configuration that trusts the authority.
func (a *authority) trust() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
