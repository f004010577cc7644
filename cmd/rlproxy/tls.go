package main

import (
	"crypto/tls"
	"net"
	"sync/atomic"
)

// listenerTLS is the TLS configuration of the listeners. A reload replaces it;
// handshakes that begin afterwards use the new one.
type listenerTLS struct{ current atomic.Pointer[tls.Config] }

func (l *listenerTLS) wrap(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return l.current.Load(), nil
		},
	})
}

// wrapHTTP2 is wrap for clients that speak HTTP/2, and require that the server says so.
func (l *listenerTLS) wrapHTTP2(ln net.Listener) net.Listener {
	return tls.NewListener(ln, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			c := l.current.Load().Clone()
			c.NextProtos = []string{"h2"}
			return c, nil
		},
	})
}
