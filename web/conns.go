package web

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
)

// conns bounds the number of connections. At the bound, a new connection replaces an idle one: of the address with the
// most connections, the one that has been idle for longest. A connection is idle unless the server is working for it:
// while its client has not sent the whole request, or does not read the answer, it is idle. So clients of one address,
// whether they keep connections open or open new ones all the time, cannot lock out those of other addresses. What
// keeps the server working for long is bounded: streams (maxStreams), delayed answers (maxDelayed), the page's requests
// to the engine (maxAsking) and checks (maxChecks) leave connections, so a probe of /healthz gets in.
type conns struct {
	refused atomic.Int64 // connections that were refused because all others were busy

	mu   sync.Mutex
	max  int       // the most connections; guarded by mu
	open list.List // of *conn, the one that was idle first at the front; guarded by mu
}

// conn is a connection, below TLS if it is used.
type conn struct {
	net.Conn
	all  *conns
	from string        // the peer's address, without the port
	at   *list.Element // element of open; nil once the connection is closed; guarded by all.mu
	busy bool          // a request has arrived and is not answered yet; guarded by all.mu
	slow int           // writes for which the client has to make room; guarded by all.mu

	// the Authorization header of the previous request, if its password was right; used only by the request in progress
	login string
}

// bound returns a listener whose connections count towards the bound.
func (c *conns) bound(l net.Listener) net.Listener { return &boundListener{l, c} }

type boundListener struct {
	net.Listener
	conns *conns
}

func (l *boundListener) Accept() (net.Conn, error) {
	for {
		nc, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c := l.conns.add(nc); c != nil {
			return c, nil
		}
		l.conns.refused.Add(1)
		_ = nc.Close() // nothing was sent
	}
}

// add counts a connection, and closes idle ones if there are too many. It returns nil if there
// are too many and all are busy.
func (c *conns) add(nc net.Conn) *conn {
	from, _, _ := net.SplitHostPort(nc.RemoteAddr().String()) // it is a TCP address
	added := &conn{Conn: nc, all: c, from: from}
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.open.Len() >= c.max {
		replaced := c.idle()
		if replaced == nil {
			return nil
		}
		replaced.remove()
		_ = replaced.Conn.Close() // its goroutine notices
	}
	added.at = c.open.PushBack(added)
	return added
}

// setMax changes the most connections. Idle ones above it are closed when the next one comes.
func (c *conns) setMax(most int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.max = most
}

// idle returns an idle connection of the address with the most connections, the one that has been idle
// for longest; or nil. The caller holds mu.
func (c *conns) idle() (found *conn) {
	each := make(map[string]int)
	for e := c.open.Front(); e != nil; e = e.Next() {
		each[e.Value.(*conn).from]++
	}
	for e := c.open.Front(); e != nil; e = e.Next() {
		if idle := e.Value.(*conn); idle.isIdle() && (found == nil || each[idle.from] > each[found.from]) {
			found = idle
		}
	}
	return found
}

func (c *conns) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open.Len()
}

func (c *conns) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for idle := c.idle(); idle != nil; idle = c.idle() {
		idle.remove()
		_ = idle.Conn.Close() // its goroutine notices
	}
}

// remove stops counting the connection. The caller holds all.mu.
func (c *conn) remove() {
	if c.at != nil {
		c.all.open.Remove(c.at)
		c.at = nil
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.all.mu.Lock()
	c.remove()
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// Write implements net.Conn. Meanwhile the connection is idle.
func (c *conn) Write(b []byte) (int, error) {
	c.change(func() { c.slow++ })
	defer c.change(func() { c.slow-- })
	return c.Conn.Write(b)
}

// setBusy records that the server begins to work on a request, or waits for its client.
func (c *conn) setBusy(busy bool) { c.change(func() { c.busy = busy }) }

// isIdle reports whether the connection is idle. The caller holds all.mu.
func (c *conn) isIdle() bool { return !c.busy || c.slow > 0 }

// change makes a change after which the connection may be idle, from then on.
func (c *conn) change(do func()) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if do(); c.isIdle() && c.at != nil {
		c.all.open.MoveToBack(c.at)
	}
}

type connKey struct{}

// withConn adds the connection to the context of its requests, for connOf.
func withConn(ctx context.Context, nc net.Conn) context.Context {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	return context.WithValue(ctx, connKey{}, nc)
}

func connOf(r *http.Request) *conn { return r.Context().Value(connKey{}).(*conn) }
