package backend

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A connection that a node closed while nothing was sent on it is noticed before it
// is used, with TLS as without: no request is lost on it.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	s, addr, files := startTLS(t)
	for _, url := range []string{s.URL(), "rediss://" + addr} {
		s.Do("FLUSHALL")
		f := openTest(t, Config{Backends: []string{url}, Timeout: 2 * time.Second, TLS: files})
		for i := range 20 {
			n, err := count(t, f)
			require.NoError(t, err)
			require.EqualValues(t, i+1, n, url)
			s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		}
	}
}

// go-redis alone would not dial for up to a second after it has failed to some times.
func TestANodeThatIsBackIsReachedAtOnce(t *testing.T) {
	s := redistest.Start(t)
	f := openTest(t, Config{Backends: []string{s.URL()}, Timeout: 5 * time.Second})
	n := f.Topology().Nodes[0]
	s.Kill()
	for range 4 * poolSize {
		err := n.Client().Ping(t.Context()).Err()
		require.True(t, NeverConnected(err), "%v", err)
		require.False(t, MaybeApplied(err))
		require.Equal(t, "connection failed: connection refused", Reason(err))
	}
	s.Run()
	require.NoError(t, n.Client().Ping(t.Context()).Err())
}
