package redistest

import (
	"net"
	"strconv"
)

// TLS has a server take TLS connections on a port of its own, Secure, and nodes of a
// cluster send clients there. The files are an authority's certificate, one that it
// gave, and that one's key; clients need one too. The other port stays open for the
// test's own questions.
func TLS(authority, certificate, key string) Option {
	return func(s *Server) {
		port := strconv.Itoa(FreePort(s.t))
		s.Secure = net.JoinHostPort("127.0.0.1", port)
		s.args = append(s.args, "--tls-port", port, "--tls-auth-clients", "yes",
			"--tls-ca-cert-file", authority, "--tls-cert-file", certificate, "--tls-key-file", key,
			"--tls-cluster", "yes", "--tls-replication", "yes")
	}
}
