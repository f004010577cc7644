package backend

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/internal/replyscan"
	"github.com/rlproxy/rlproxy/internal/sockio"
)

// Connections tracks a client's open connections, so that all of them can be dropped when the node's name may resolve
// to another server. The connection pool would keep using the old one. The zero value is ready for use.
type Connections struct {
	// PassOn means that replies are passed on without being parsed, and so may be large. The reply to the greeting is
	// parsed all the same. Set PassOn before the first connection is opened.
	PassOn bool

	mu   sync.Mutex
	open map[*connection]struct{} // guarded by mu
}

// connection is one tracked connection. Before the pool reuses it, the pool checks the
// file descriptor for a closed peer or unsolicited bytes, with TLS too.
type connection struct {
	net.Conn
	raw       syscall.RawConn   // the socket's raw connection, for SyscallConn
	reader    io.Reader         // reads from Conn
	writer    io.Writer         // writes to Conn
	from      *Connections      // the set that tracks the connection
	spoke     bool              // the peer has sent something other than a refusal; used only by the reader
	refused   error             // why the peer has refused the client, or nil; used only by the reader
	replies   replyscan.Scanner // checks the replies; used only by the reader
	malformed error             // what the Scanner found, or nil; used only by the reader
}

// unspoken is the error of a connection whose peer has never sent a byte, or only a refusal. Because a
// client sends a greeting first and waits for the reply, no command was sent on the connection.
type unspoken struct{ error }

// Unwrap returns a list because go-redis unwraps an error with a single cause.
func (u unspoken) Unwrap() []error { return []error{u.error} }

// refusals are the beginnings of the errors with which a server refuses a client: it has no room for
// more, or is in protected mode. The server sends one before it reads anything, and hangs up.
var refusals = []string{"-ERR max number of clients", "-DENIED "}

// refusal returns the first sentence of a refusal as an error, or nil if p is something else.
func refusal(p []byte) error {
	text := string(p)
	if !slices.ContainsFunc(refusals, func(begin string) bool { return strings.HasPrefix(text, begin) }) {
		return nil
	}
	text, _, _ = strings.Cut(text[1:], ". ")
	return errors.New(strings.TrimSpace(text))
}

// Read wraps the error of a peer that never sent anything in unspoken, and so it does with a refusal. What precedes a
// reply that exceeds the limits of replyscan is returned first, since it may be replies to other clients.
func (c *connection) Read(p []byte) (int, error) {
	for c.malformed == nil {
		n, err := c.reader.Read(p)
		if n > 0 && !c.spoke {
			c.refused = refusal(p[:n])
			c.spoke = c.refused == nil
		}
		switch {
		case c.refused != nil: // again, if go-redis has ignored it before
			return 0, unspoken{c.refused}
		case n > 0:
			n, c.malformed = c.replies.Feed(p[:n])
		case err != nil && !c.spoke:
			err = unspoken{err}
		}
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
	return 0, c.malformed
}

// Write writes to the peer.
func (c *connection) Write(p []byte) (int, error) { return c.writer.Write(p) }

// SyscallConn returns the raw connection with which the pool checks for unexpected bytes before
// it reuses the connection. sockio.SkipEmptyReads makes the check cheap if there are none.
func (c *connection) SyscallConn() (syscall.RawConn, error) { return c.raw, nil }

// Close closes the connection and stops tracking it.
func (c *connection) Close() error {
	c.from.mu.Lock()
	delete(c.from.open, c)
	c.from.mu.Unlock()
	return c.Conn.Close()
}

// DropAll closes every connection. A caller that waits for a reply gets an error.
func (cs *Connections) DropAll() {
	cs.mu.Lock()
	open := cs.open
	cs.open = nil
	cs.mu.Unlock()
	for c := range open { // without the lock: with TLS, Close writes to the peer
		_ = c.Conn.Close() // an error leaves nothing to do
	}
}

// unopened stands for a connection that could not be opened. It fails at the first read or write instead of in the
// dial, because go-redis stops dialing for up to a second after some failed dials.
type unopened struct {
	net.Conn // nil: the methods that a client calls are below
	err      error
}

func (u unopened) Read([]byte) (int, error)         { return 0, unspoken{u.err} }
func (u unopened) Write([]byte) (int, error)        { return 0, unspoken{u.err} }
func (u unopened) Close() error                     { return nil }
func (u unopened) LocalAddr() net.Addr              { return nil }
func (u unopened) RemoteAddr() net.Addr             { return nil }
func (u unopened) SetDeadline(time.Time) error      { return nil }
func (u unopened) SetReadDeadline(time.Time) error  { return nil }
func (u unopened) SetWriteDeadline(time.Time) error { return nil }

// dialer returns a dial function for go-redis. It never fails, but may return an unopened
// connection. within returns how long opening a connection may take.
func (cs *Connections) dialer(target *tlsTarget, config func() *tls.Config,
	within func() time.Duration) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, within())
		defer cancel()
		d := net.Dialer{KeepAlive: keepAlive}
		conn, err := d.DialContext(ctx, network, addr)
		if err != nil {
			return unopened{err: err}, nil
		}
		c := &connection{Conn: conn, from: cs, replies: replyscan.Scanner{Limits: replyscan.Parsed}}
		if cs.PassOn {
			c.replies.Limits = replyscan.Passed
		}
		c.raw, err = conn.(syscall.Conn).SyscallConn()
		if target != nil && err == nil {
			secured := tls.Client(conn, target.apply(config(), addr))
			c.Conn, err = secured, secured.HandshakeContext(ctx)
		}
		if err != nil {
			_ = conn.Close()
			return unopened{err: err}, nil
		}
		c.raw = sockio.SkipEmptyReads(c.raw)
		c.reader, c.writer = sockio.NewReader(c.Conn), sockio.NewWriter(c.Conn)
		cs.mu.Lock()
		if cs.open == nil {
			cs.open = make(map[*connection]struct{})
		}
		cs.open[c] = struct{}{}
		cs.mu.Unlock()
		return c, nil
	}
}

// keepAlive is how long a connection is idle before TCP probes the peer. Requests have deadlines of their own.
const keepAlive = 15 * time.Second
