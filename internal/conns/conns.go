// Package conns bounds the number of connections of a server whose clients need not be trusted.
package conns

import (
	"container/list"
	"net"
	"sync"
	"sync/atomic"
)

// Bound bounds the number of connections. At the bound, a new connection replaces an idle one: of the address with the
// most connections, the one that has been idle for longest. A connection is idle unless the server is working for it:
// while its client has not sent the whole request, or does not read the answer, it is idle. So clients of one address,
// whether they keep connections open or open new ones all the time, cannot lock out those of other addresses. The
// server bounds what keeps it working for long, so that connections are left.
type Bound struct {
	refused atomic.Int64 // connections that were refused because all others were busy

	mu   sync.Mutex
	max  int       // the most connections; guarded by mu
	open list.List // of *Conn, the one that was idle first at the front; guarded by mu
}

// Conn is a connection, below TLS if it is used.
type Conn struct {
	net.Conn
	all  *Bound
	from string        // the peer's address, without the port
	at   *list.Element // element of open; nil once the connection is closed; guarded by all.mu
	busy bool          // a request has arrived and is not answered yet; guarded by all.mu
	slow int           // writes for which the client has to make room; guarded by all.mu

	// Login is the Authorization header of the previous request, if its password was right. Only the server uses it,
	// one request after the other.
	Login string
}

// Of returns the connection that a listener of a Bound has accepted, also below TLS.
func Of(nc net.Conn) *Conn {
	if secure, ok := nc.(interface{ NetConn() net.Conn }); ok {
		nc = secure.NetConn()
	}
	return nc.(*Conn)
}

// Listener returns a listener whose connections count towards the bound.
func (b *Bound) Listener(l net.Listener) net.Listener { return &listener{l, b} }

type listener struct {
	net.Listener
	conns *Bound
}

func (l *listener) Accept() (net.Conn, error) {
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
func (b *Bound) add(nc net.Conn) *Conn {
	from, _, _ := net.SplitHostPort(nc.RemoteAddr().String()) // it is a TCP address
	added := &Conn{Conn: nc, all: b, from: from}
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.open.Len() >= b.max {
		replaced, _ := b.idle()
		if replaced == nil {
			return nil
		}
		replaced.remove()
		_ = replaced.Conn.Close() // its goroutine notices
	}
	added.at = b.open.PushBack(added)
	return added
}

// SetMax changes the most connections. Idle ones above it are closed when the next one comes.
func (b *Bound) SetMax(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.max = most
}

// idle returns how many connections are idle, and that of the address with the most connections that has been idle for
// longest; nil if none is. The caller holds mu.
func (b *Bound) idle() (found *Conn, n int) {
	each := make(map[string]int)
	for e := b.open.Front(); e != nil; e = e.Next() {
		each[e.Value.(*Conn).from]++
	}
	for e := b.open.Front(); e != nil; e = e.Next() {
		idle := e.Value.(*Conn)
		if !idle.isIdle() {
			continue
		}
		n++
		if found == nil || each[idle.from] > each[found.from] {
			found = idle
		}
	}
	return found, n
}

// Count returns how many connections are open, and how many of them are idle.
func (b *Bound) Count() (open, idle int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, idle = b.idle()
	return b.open.Len(), idle
}

// Refused returns how many connections were refused because all others were busy.
func (b *Bound) Refused() int64 { return b.refused.Load() }

// CloseIdle closes the connections that are idle.
func (b *Bound) CloseIdle() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for idle, _ := b.idle(); idle != nil; idle, _ = b.idle() {
		idle.remove()
		_ = idle.Conn.Close() // its goroutine notices
	}
}

// remove stops counting the connection. The caller holds all.mu.
func (c *Conn) remove() {
	if c.at != nil {
		c.all.open.Remove(c.at)
		c.at = nil
	}
}

// Close implements net.Conn.
func (c *Conn) Close() error {
	c.all.mu.Lock()
	c.remove()
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// Write implements net.Conn. Meanwhile the connection is idle.
func (c *Conn) Write(b []byte) (int, error) {
	c.change(func() { c.slow++ })
	defer c.change(func() { c.slow-- })
	return c.Conn.Write(b)
}

// SetBusy records that the server begins to work on a request, or waits for its client.
func (c *Conn) SetBusy(busy bool) { c.change(func() { c.busy = busy }) }

// isIdle reports whether the connection is idle. The caller holds all.mu.
func (c *Conn) isIdle() bool { return !c.busy || c.slow > 0 }

// change makes a change after which the connection may be idle, from then on.
func (c *Conn) change(do func()) {
	c.all.mu.Lock()
	defer c.all.mu.Unlock()
	if do(); c.isIdle() && c.at != nil {
		c.all.open.MoveToBack(c.at)
	}
}
