package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// Guarded is a master with a replica and the sentinels that monitor them.
type Guarded struct {
	Master    *Server // the master at the start
	Replica   *Server // the replica at the start
	Sentinels []*Server
}

// SentinelName is the master's name at the sentinels.
const SentinelName = "limits"

// sentinelTimeout is down-after-milliseconds, after which sentinels consider a master down.
const sentinelTimeout = 600

// FailoverTimeout is the sentinels' failover-timeout. After a failover they wait twice
// as long before they start another one on their own.
const FailoverTimeout = 3 * time.Second

// tiltPeriod is for how long a sentinel does nothing after it had to wait for its core for 2 s. By itself it does
// nothing for 30 s.
const tiltPeriod = time.Second

// StartGuarded runs a master, its replica and three sentinels, and waits until they know each other.
func StartGuarded(t testing.TB, options ...Option) *Guarded {
	t.Helper()
	options = append(options, remembers)
	g := &Guarded{Master: start(t, options, "--repl-diskless-sync-delay", "0")}
	g.Replica = start(t, options, "--repl-diskless-sync-delay", "0")
	g.Replica.Follow(g.Master)
	for range 3 {
		g.Sentinels = append(g.Sentinels, StartSentinel(t, g.Master.Addr))
	}
	for _, s := range g.Sentinels {
		require.Eventually(t, func() bool {
			m := s.Do("SENTINEL", "MASTER", SentinelName)
			return strings.Contains(m, "num-slaves 1") && strings.Contains(m, "num-other-sentinels 2") || // RESP2
				strings.Contains(m, "num-slaves:1") && strings.Contains(m, "num-other-sentinels:2")
		}, 30*time.Second, 20*time.Millisecond, "sentinels know each other and the replica")
	}
	require.Eventually(t, func() bool {
		return strings.Contains(g.Replica.Do("INFO", "replication"), "master_link_status:up")
	}, 30*time.Second, 20*time.Millisecond, "the replica is in sync")
	return g
}

// remembers gives a server a configuration file in which it stores its master, so that it has the
// same role after a restart.
func remembers(s *Server) {
	file := filepath.Join(s.t.TempDir(), "redis.conf")
	require.NoError(s.t, os.WriteFile(file, nil, 0o600))
	s.args = append([]string{file}, s.args...)
}

// Follow makes the server a replica of master. It remains one after a restart.
func (s *Server) Follow(master *Server) {
	s.t.Helper()
	s.Do("REPLICAOF", "127.0.0.1", master.Port)
	s.Do("CONFIG", "REWRITE")
}

// URL returns the master's URL as a backend.
func (g *Guarded) URL() string {
	var addrs []string
	for _, s := range g.Sentinels {
		addrs = append(addrs, s.Addr)
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "/" + SentinelName
}

// StartSentinel runs a sentinel that monitors the master at host:port, with a quorum of two.
func StartSentinel(t testing.TB, master string) *Server {
	host, port, err := net.SplitHostPort(master)
	require.NoError(t, err)
	own := FreePort(t)
	file := filepath.Join(t.TempDir(), "sentinel.conf")
	conf := fmt.Sprintf("port %d\nbind 127.0.0.1\nsentinel monitor %s %s %s 2\nsentinel down-after-milliseconds %s "+
		"%d\nsentinel failover-timeout %s %d\n",
		own, SentinelName, host, port, SentinelName, sentinelTimeout, SentinelName, FailoverTimeout.Milliseconds())
	require.NoError(t, os.WriteFile(file, []byte(conf), 0o600))
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(own)), Port: own, t: t,
		args: []string{file, "--sentinel"}}
	s.launch(&redis.Options{Addr: s.Addr, MaxRetries: -1, Protocol: 2})
	s.Do("SENTINEL", "DEBUG", "tilt-period", tiltPeriod.Milliseconds())
	return s
}
