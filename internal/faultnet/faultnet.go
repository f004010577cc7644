// Package faultnet is a TCP proxy for tests that simulates faults of a network: it delays and drops
// data, cuts and refuses connections, but never repeats anything.
package faultnet

import (
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Faults are the faults that a proxy applies. Probabilities are from 0 to 1 and apply to
// each chunk that one read returns.
type Faults struct {
	Refuse          bool          // close new connections at once
	SwallowRequests bool          // drop what clients send, and keep their connections open
	SwallowReplies  bool          // drop what the server sends, and keep the connections open
	Delay           time.Duration // delay of each chunk that the server sends
	Late            float64       // probability that Delay is applied; 0 means always
	Cut             float64       // probability that the connection is cut in the middle of a reply
	Mute            float64       // probability that a reply, and all later ones of its connection, are dropped
	Lose            func() bool   // asked about each reply: reports whether to cut the connection instead; nil: never
}

// Proxy stands between clients and one server.
type Proxy struct {
	Addr string // host:port on which the proxy listens
	Port int    // port of Addr

	target string
	faults atomic.Pointer[Faults]
	listen net.Listener
	done   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // open connections on both sides; guarded by mu; nil after the end of the test
}

// Start runs a proxy to target until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &Proxy{Addr: l.Addr().String(), Port: l.Addr().(*net.TCPAddr).Port, target: target, listen: l,
		conns: make(map[net.Conn]struct{})}
	p.Set(Faults{})
	p.done.Add(1)
	go p.accept() // until the listener is closed
	t.Cleanup(func() {
		_ = l.Close()
		p.Cut()
		p.mu.Lock()
		p.conns = nil
		p.mu.Unlock()
		p.Cut()
		p.done.Wait()
	})
	return p
}

// Set replaces the faults, for open connections too.
func (p *Proxy) Set(f Faults) { p.faults.Store(&f) }

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// hold registers a connection for Cut and reports whether the proxy is still running.
func (p *Proxy) hold(c net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conns == nil {
		return false
	}
	p.conns[c] = struct{}{}
	return true
}

func (p *Proxy) accept() {
	defer p.done.Done()
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		if p.faults.Load().Refuse {
			_ = client.Close()
			continue
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.hold(client) || !p.hold(server) {
			_, _ = client.Close(), server.Close()
			return
		}
		p.done.Add(2)
		go p.requests(client, server) // both until either side ends
		go p.replies(client, server)
	}
}

// end closes the connections on both sides.
func (p *Proxy) end(client, server net.Conn) {
	p.mu.Lock()
	delete(p.conns, client)
	delete(p.conns, server)
	p.mu.Unlock()
	_, _ = client.Close(), server.Close()
	p.done.Done()
}

// requests passes on what the client sends.
func (p *Proxy) requests(client, server net.Conn) {
	defer p.end(client, server)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if p.faults.Load().SwallowRequests {
			continue
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// replies passes on what the server sends.
func (p *Proxy) replies(client, server net.Conn) {
	defer p.end(client, server)
	buf := make([]byte, 64<<10)
	mute := false
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		f := p.faults.Load()
		if f.Delay > 0 && (f.Late == 0 || chance(f.Late)) {
			time.Sleep(f.Delay)
		}
		if chance(f.Mute) {
			mute = true
		}
		if f.Lose != nil && f.Lose() {
			return
		}
		if mute || f.SwallowReplies {
			continue
		}
		if chance(f.Cut) {
			_, _ = client.Write(buf[:n/2])
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// chance returns true with probability p.
func chance(p float64) bool {
	return p > 0 && rand.Float64() < p //nolint:gosec // not a secret
}
