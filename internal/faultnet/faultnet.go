// Package faultnet is a TCP proxy for tests and benchmarks that simulates distances and faults of a network: it delays
// and drops data, cuts and refuses connections, but never repeats anything.
package faultnet

import (
	"bytes"
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
	Distance        time.Duration // by how much each chunk arrives later, in either direction
	Delay           time.Duration // by how much each chunk that the server sends arrives later, beside Distance
	Late            float64       // probability that Delay is applied; 0 means always
	Cut             float64       // probability that the connection is cut in the middle of a reply
	Mute            float64       // probability that a reply, and all later ones of its connection, are dropped
	Lose            func() bool   // asked about each reply: reports whether to cut the connection instead; nil: never

	// Drop is asked about each chunk that the server sends: reports whether to drop it; nil: never.
	Drop func(data []byte) bool
}

// Proxy stands between clients and one server.
type Proxy struct {
	Addr string // host:port on which the proxy listens
	Port int    // port of Addr

	target atomic.Pointer[string]
	faults atomic.Pointer[Faults]
	listen net.Listener
	done   sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]struct{} // open connections on both sides; guarded by mu; nil after the end of the test
}

// Start runs a proxy to target until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	p, err := Open(target)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// Open runs a proxy to target until Close.
func Open(target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), Port: l.Addr().(*net.TCPAddr).Port, listen: l,
		conns: make(map[net.Conn]struct{})}
	p.target.Store(&target)
	p.Set(Faults{})
	p.done.Add(1)
	go p.accept() // until the listener is closed
	return p, nil
}

// Close ends the proxy and its connections.
func (p *Proxy) Close() {
	_ = p.listen.Close()
	p.Cut()
	p.mu.Lock()
	p.conns = nil
	p.mu.Unlock()
	p.Cut()
	p.done.Wait()
}

// Set replaces the faults, for open connections too.
func (p *Proxy) Set(f Faults) { p.faults.Store(&f) }

// Move moves the address to another server, and closes all connections.
func (p *Proxy) Move(target string) {
	p.target.Store(&target)
	p.Cut()
}

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
		server, err := net.Dial("tcp", *p.target.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.hold(client) || !p.hold(server) {
			_, _ = client.Close(), server.Close()
			return
		}
		p.done.Add(4)
		requests, replies := make(chan chunk, chunks), make(chan chunk, chunks)
		go p.requests(client, requests) // all until either side ends
		go p.deliver(server, requests)
		go p.replies(server, replies)
		go p.deliver(client, replies)
	}
}

// chunk is what one read returned.
type chunk struct {
	data []byte
	due  time.Time // when it arrives
}

// chunks is how many chunks of a connection may be under way in one direction. Then nothing more is read.
const chunks = 1024

// deliver writes the chunks when they are due. When there will be no more, it closes the connection.
func (p *Proxy) deliver(to net.Conn, under <-chan chunk) {
	defer p.done.Done()
	failed := false
	for c := range under {
		if !failed {
			time.Sleep(time.Until(c.due))
			_, err := to.Write(c.data)
			failed = err != nil
		}
		if failed {
			p.close(to) // so that nothing more is read
		}
	}
	p.close(to)
}

// close closes one side of a connection.
func (p *Proxy) close(c net.Conn) {
	p.mu.Lock()
	delete(p.conns, c)
	p.mu.Unlock()
	_ = c.Close()
}

// requests reads what the client sends.
func (p *Proxy) requests(client net.Conn, to chan<- chunk) {
	defer p.done.Done()
	defer close(to)
	buf := make([]byte, 64<<10)
	for {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if f := p.faults.Load(); !f.SwallowRequests {
			to <- chunk{bytes.Clone(buf[:n]), time.Now().Add(f.Distance)}
		}
	}
}

// replies reads what the server sends.
func (p *Proxy) replies(server net.Conn, to chan<- chunk) {
	defer p.done.Done()
	defer close(to)
	buf := make([]byte, 64<<10)
	mute := false
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		f := p.faults.Load()
		due := time.Now().Add(f.Distance)
		if f.Late == 0 || chance(f.Late) {
			due = due.Add(f.Delay)
		}
		if chance(f.Mute) {
			mute = true
		}
		if f.Lose != nil && f.Lose() {
			return
		}
		if mute || f.SwallowReplies || f.Drop != nil && f.Drop(buf[:n]) {
			continue
		}
		if chance(f.Cut) {
			to <- chunk{bytes.Clone(buf[:n/2]), due}
			return
		}
		to <- chunk{bytes.Clone(buf[:n]), due}
	}
}

// chance returns true with probability p.
func chance(p float64) bool {
	return p > 0 && rand.Float64() < p //nolint:gosec // not a secret
}
