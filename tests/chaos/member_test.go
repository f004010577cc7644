package chaos

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// member is one rlproxy of a fleet. It may be killed and started again at the same address.
type member struct {
	addr    string
	args    []string
	process *proxytest.Proxy
	lives   atomic.Int64 // incremented just before and just after the proxy is killed: odd in between
}

func startMember(t *testing.T, url string, args ...string) *member {
	t.Helper()
	port := redistest.FreePort(t)
	m := &member{addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), args: append([]string{
		"--port", strconv.Itoa(port), "--backend", url, "--loglevel", "notice",
		"--backend-timeout", strconv.FormatInt(backendTimeout.Milliseconds(), 10),
		"--passthrough-timeout", strconv.FormatInt(passthroughTimeout.Milliseconds(), 10),
	}, args...)}
	m.process = proxytest.Start(t, m.args...)
	return m
}

// restart kills the proxy and starts it again.
func (m *member) restart(t *testing.T) {
	t.Helper()
	m.lives.Add(1)
	m.process.Kill()
	m.lives.Add(1)
	requireSane(t, m.process)
	m.process = proxytest.Start(t, m.args...)
}

// requireSane checks that a proxy's log has no panic and no data race.
func requireSane(t *testing.T, p *proxytest.Proxy) {
	t.Helper()
	log := p.Output.String()
	for _, bad := range []string{"DATA RACE", "panic", "fatal error"} {
		require.NotContains(t, log, bad)
	}
}

// round sends the proxy a rate limit and an ordinary command for each key. It returns an
// error if not all were answered by nodes.
func (m *member) round(keys []string) error {
	nc, err := net.Dial("tcp", m.addr)
	if err != nil {
		return err
	}
	defer func() { _ = nc.Close() }() // all has been read
	c := proxytest.NewConn(nc)
	var commands [][]any
	for _, key := range keys {
		commands = append(commands, []any{"RL.SLIDE", key, 1, "1s", "COST", 0, "FAIL", "ERROR"}, []any{"GET", key})
	}
	replies, err := c.Exchange(commands...)
	if err != nil {
		return err
	}
	for i := 0; i < len(replies); i += 2 {
		if d, err := proxytest.ToDecision(replies[i]); err != nil || d[2] != 1 || replies[i+1] != nil {
			return fmt.Errorf("%s: %v, %v", keys[i/2], replies[i], replies[i+1])
		}
	}
	return nil
}

// footprint is what an idle proxy occupies.
type footprint struct {
	goroutines, clients, files, memory int
	drawn                              int // requests that were decided from advances, since the proxy started
}

// footprint reads the proxy's footprint from INFO and from the system.
func (m *member) footprint(t *testing.T) footprint {
	t.Helper()
	nc, err := net.Dial("tcp", m.addr)
	require.NoError(t, err)
	defer func() { _ = nc.Close() }() // all has been read
	replies, err := proxytest.NewConn(nc).Exchange([]any{"INFO"})
	require.NoError(t, err)
	info := make(map[string]string)
	for _, line := range strings.Split(replies[0].(string), "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		info[name] = value
	}
	number := func(name string) int {
		n, err := strconv.Atoi(info[name])
		require.NoError(t, err, name)
		return n
	}
	require.Zero(t, number("closed_panic"))
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", m.process.Cmd.Process.Pid))
	require.NoError(t, err)
	return footprint{number("goroutines"), number("connected_clients"), len(files), number("used_memory"), number("advance_decisions")}
}

func (f footprint) String() string {
	return fmt.Sprintf("%d goroutines, %d clients, %d files, %d MB, %d decided from advances",
		f.goroutines, f.clients, f.files, f.memory>>20, f.drawn)
}

// within reports whether a footprint is no larger than an earlier one, apart from idle
// connections to nodes and memory that is not yet collected.
func (f footprint) within(before footprint) bool {
	const goroutines, files, memory = 10, 20, 32 << 20
	return f.clients == 1 && f.goroutines <= before.goroutines+goroutines &&
		f.files <= before.files+files && f.memory <= before.memory+memory
}
