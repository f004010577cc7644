package tests

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// fleet is three proxies in front of the same nodes. Any of them may be killed and
// started again while clients use it.
type fleet struct {
	binary string // empty: the one under test
	args   []string
	own    func(i int) []string // the arguments of one proxy beside args; nil: none
	tls    *tls.Config          // of the clients of the last proxy; nil: it has no TLS

	mu      sync.Mutex
	proxies []*proxy // guarded by mu
}

func startFleet(t *testing.T, args []string) *fleet {
	t.Helper()
	return &fleet{args: args, proxies: startProxies(t, 3, args)}
}

// start starts a proxy.
func (f *fleet) start(t *testing.T, i int) *proxy {
	t.Helper()
	args := slices.Clone(f.args)
	if f.own != nil {
		args = append(args, f.own(i)...)
	}
	p := proxytest.StartOf(t, cmp.Or(f.binary, proxytest.Binary), args...)
	return &proxy{p, p.Addr}
}

// connect connects a client to a proxy, which has index i.
func (f *fleet) connect(i int, p *proxy) (*conn, error) {
	if f.tls == nil || i < len(f.proxies)-1 {
		return connect(p.addr)
	}
	c, err := tls.Dial("tcp", p.addr, f.tls)
	if err != nil {
		return nil, err
	}
	return &conn{proxytest.NewConn(c)}, nil
}

// proxy returns the proxy that currently has index i.
func (f *fleet) proxy(i int) *proxy {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.proxies[i]
}

// restart kills a proxy as kill -9 does and starts another in its place.
func (f *fleet) restart(t *testing.T, i int) {
	t.Helper()
	old := f.proxy(i)
	old.Kill()
	next := f.start(t, i)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proxies[i] = next
}

// successor waits for the proxy that replaces one that was killed.
func (f *fleet) successor(i int, of *proxy) (*proxy, error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if p := f.proxy(i); p != of {
			return p, nil
		}
	}
	return nil, fmt.Errorf("proxy %d was not killed", i)
}

// stop asks all proxies to end, and checks that they do so cleanly.
func (f *fleet) stop(t *testing.T) {
	t.Helper()
	for _, p := range f.proxies {
		p.stop(t)
	}
}
