package engine

import (
	"context"
	"crypto/tls"
	"net"
	"sync"
	"syscall"
	"time"
)

// links are a node's open connections, known so that all can be dropped at once: a
// name may lead to another server by now, and a pool would keep the old one.
type links struct {
	mu   sync.Mutex
	open map[*link]struct{} // guarded by mu
}

// link is one of them. The pool asks its file descriptor whether the peer has gone
// or has sent what nobody asked for, TLS or not, before it uses a connection again.
type link struct {
	net.Conn
	raw   syscall.Conn
	from  *links
	spoke bool // the peer has said something. Of who reads
}

// unspoken is the error of a link whose peer has never said a word. The first thing
// sent on a link is a greeting, the rest waits for the answer: nothing else was sent.
type unspoken struct{ error }

// Unwrap returns a list: go-redis strips one layer off what has a single cause.
func (u unspoken) Unwrap() []error { return []error{u.error} }

// Read reads, and says whether there was anything to lose.
func (l *link) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.spoke = true
	} else if err != nil && !l.spoke {
		err = unspoken{err}
	}
	return n, err
}

// SyscallConn returns the socket's.
func (l *link) SyscallConn() (syscall.RawConn, error) { return l.raw.SyscallConn() }

// Close closes the connection and forgets it.
func (l *link) Close() error {
	l.from.mu.Lock()
	delete(l.from.open, l)
	l.from.mu.Unlock()
	return l.Conn.Close()
}

// dropAll closes every connection. Who waits for a reply on one gets an error.
func (ls *links) dropAll() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for l := range ls.open {
		_ = l.Conn.Close() // the peer is not what it was: nothing is left to say
	}
	clear(ls.open)
}

// dialer returns what opens connections, with TLS if target is not nil.
func (ls *links) dialer(target *tlsTarget, config func() *tls.Config) func(context.Context, string, string) (net.Conn, error) {
	ls.open = make(map[*link]struct{})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{KeepAlive: keepAlive}
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		l := &link{Conn: conn, raw: conn.(syscall.Conn), from: ls}
		if target != nil {
			secured := tls.Client(conn, target.apply(config(), addr))
			if err := secured.HandshakeContext(ctx); err != nil {
				_ = conn.Close()
				return nil, err
			}
			l.Conn = secured
		}
		ls.mu.Lock()
		ls.open[l] = struct{}{}
		ls.mu.Unlock()
		return l, nil
	}
}

// keepAlive is how long a connection is silent before TCP asks whether the peer is
// still there. Requests have deadlines of their own.
const keepAlive = 15 * time.Second
