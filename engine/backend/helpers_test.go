package backend

import (
	"bufio"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// openTest opens a fleet that is closed when the test ends.
func openTest(t testing.TB, config Config) *Fleet {
	t.Helper()
	if config.Timeout == 0 {
		config.Timeout = 5 * time.Second
	}
	f, err := Open(config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Close()) })
	return f
}

// babbler starts a server that replies to any input with the same bytes, and returns its
// address. It runs until the test ends.
func babbler(t testing.TB, reply string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() { // until the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // until the client closes the connection
				defer func() { _ = c.Close() }()
				r := bufio.NewReader(c)
				for {
					if _, err := r.ReadByte(); err != nil {
						return
					}
					_, _ = r.Discard(r.Buffered())
					if _, err := c.Write([]byte(reply)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}
