package tests

import (
	"crypto/tls"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// ask connects a number of clients, each of which sends a command, and leaves them connected until
// the test ends.
func ask(t *testing.T, clients int, dial func() (net.Conn, error), command []any) {
	t.Helper()
	places := make(chan struct{}, 50) // clients that connect at the same time
	var all sync.WaitGroup
	for range clients {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			conn, err := dial()
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = conn.Close() })
			if _, err := proxytest.NewConn(conn).Exchange(command); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	require.False(t, t.Failed())
}

// TestIdleConnectionsTakeLittleMemory compares the memory of connections that have sent one command
// and are idle since with the figures in operations.md. Without TLS, those whose command was a
// decision are parked.
func TestIdleConnectionsTakeLittleMemory(t *testing.T) {
	a := newAuthority(t)
	cert, key := a.issue(t, "server", time.Now().Add(time.Hour))
	plain := append(backends(startNode(t)), "--maxclients", "12000")
	secure := append([]string{"--tls-cert-file", cert, "--tls-key-file", key, "--tls-auth-clients", "no"}, plain...)
	for _, c := range []struct {
		name    string
		tls     bool
		command string
		clients int
		mostKB  float64 // growth of the resident memory, for each
	}{
		{"parked", false, "RL.SLIDE k 1000000 60", 10_000, 3.8},
		{"with a goroutine", false, "PING", 10_000, 10},
		{"TLS", true, "RL.SLIDE k 1000000 60", 4_000, 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var p *proxy
			dial := func() (net.Conn, error) { return net.Dial("tcp", p.addr) }
			if c.tls {
				p = startTLS(t, secure...)
				dial = func() (net.Conn, error) { return tls.Dial("tcp", p.addr, a.trust()) }
			} else {
				p = startProxy(t, plain...)
			}
			resident := func() int { return memoryKB(t, p.Cmd.Process.Pid, "VmRSS") }
			if !raceEnabled {
				ask(t, 500, dial, words(c.command)) // from now on, the process has the memory that it needs in any case
			}
			before := resident()
			for last := 0; last != before && !raceEnabled; { // wait until the process has returned unused memory
				last = before
				time.Sleep(2 * time.Second)
				before = resident()
			}
			clients := times(c.clients)
			ask(t, clients, dial, words(c.command))
			var each float64
			settled := func() bool {
				each = float64(resident()-before) / float64(clients)
				return each <= c.mostKB || raceEnabled
			}
			for end := time.Now().Add(20 * time.Second); !settled() && time.Now().Before(end); {
				time.Sleep(100 * time.Millisecond)
			}
			t.Logf("%.1f KB for each connection", each)
			require.True(t, settled(), "%.1f KB for each connection, more than %.1f", each, c.mostKB)
			p.stop(t)
		})
	}
}
