package proxytest

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Proxy is a running rlproxy.
type Proxy struct {
	*Process
	Addr string // the host:port on which it listens
}

var listening = regexp.MustCompile(`msg=listening address=(\S+)`)

// Start starts an rlproxy and waits until it listens. It uses a free port unless args contain a port.
func Start(t testing.TB, args ...string) *Proxy {
	t.Helper()
	return StartOf(t, Binary, args...)
}

// StartOf is Start with another binary than the one under test.
func StartOf(t testing.TB, binary string, args ...string) *Proxy {
	t.Helper()
	p := &Proxy{Process: Spawn(t, binary, append([]string{"--bind", "127.0.0.1", "--port", "0"}, args...)...)}
	p.Ready(t)
	return p
}

// Ready waits until the proxy listens.
func (p *Proxy) Ready(t testing.TB) {
	t.Helper()
	Eventually(t, "rlproxy", func() bool {
		if m := listening.FindStringSubmatch(p.Output.String()); m != nil {
			p.Addr = m[1]
		}
		return p.Addr != "" || !p.Running()
	})
	require.NotEmpty(t, p.Addr, "rlproxy ended:\n%s", p.Output)
}
