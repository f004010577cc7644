package resp

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// startTLS serves likeRedis under TLS and returns how clients trust it.
func startTLS(t *testing.T, cfg Config) (*Server, string, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	roots.AddCert(leaf)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	srv := startOn(t, cfg, handlerFuncs{open: trust, serve: likeRedis}, tls.NewListener(ln, server))
	return srv, ln.Addr().String(), &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

func TestTLS(t *testing.T) {
	srv, addr, trust := startTLS(t, Config{})
	conn := tls.Client(dial(t, addr), trust)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
	srv.Sessions(func(s *Session) { require.True(t, s.TLS) })
	deep := strings.Repeat("*2\r\n$4\r\nECHO\r\n$9\r\nsomething\r\n", 2000) // more than any one buffer
	go send(t, conn, deep)
	expect(t, conn, strings.Repeat("$9\r\nsomething\r\n", 2000))
	send(t, conn, "PING\r\n*x\r\n")
	expectEnd(t, conn, "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n")
}

func TestTLSHandshakeIsBounded(t *testing.T) {
	srv, addr, trust := startTLS(t, Config{HandshakeTimeout: 50 * time.Millisecond})
	mute := dial(t, addr)
	conn := tls.Client(dial(t, addr), trust)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
	expectEnd(t, mute, "")
	require.Eventually(t, func() bool { return srv.Stats().HandshakeFails.Load() == 1 }, 10*time.Second, time.Millisecond)
}

func TestTLSDrain(t *testing.T) {
	srv, addr, trust := startTLS(t, Config{})
	conn, mute := tls.Client(dial(t, addr), trust), dial(t, addr)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
	require.Eventually(t, func() bool { return srv.Stats().Accepted.Load() == 2 }, 10*time.Second, time.Millisecond)
	go func() {
		expectEnd(t, conn, "")
		_ = conn.Close()
	}()
	require.NoError(t, srv.Shutdown(context.Background()))
	expectEnd(t, mute, "")
}
