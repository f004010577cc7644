package backend

import (
	"testing"
	"time"

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
