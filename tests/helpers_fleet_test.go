package tests

import (
	"fmt"
	"sync"
	"testing"
	"time"
)

// fleet is three proxies in front of the same nodes. Any of them may be killed and
// started again while clients use it.
type fleet struct {
	args []string

	mu      sync.Mutex
	proxies []*proxy // guarded by mu
}

func startFleet(t *testing.T, args []string) *fleet {
	t.Helper()
	return &fleet{args: args, proxies: startProxies(t, 3, args)}
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
	next := startProxy(t, f.args...)
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
