package backend

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
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

// fakeSentinel starts a sentinel that names 127.0.0.1 and the given port as the master of any name. It returns its
// address, and runs until the test ends.
func fakeSentinel(t testing.TB, port *atomic.Int64) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	serve := func(c net.Conn) {
		defer func() { _ = c.Close() }()
		for lines := bufio.NewScanner(c); lines.Scan(); { // *n, and two lines for each of n words
			n, _ := strconv.Atoi(strings.TrimPrefix(lines.Text(), "*"))
			var words []string
			for i := range 2 * n {
				if lines.Scan(); i%2 == 1 {
					words = append(words, lines.Text())
				}
			}
			reply := "+OK\r\n"
			switch words[0] {
			case "hello":
				reply = "-ERR unknown command 'hello'\r\n"
			case "sentinel":
				at := fmt.Sprint(port.Load())
				reply = fmt.Sprintf("*2\r\n$9\r\n127.0.0.1\r\n$%d\r\n%s\r\n", len(at), at)
			}
			if _, err := c.Write([]byte(reply)); err != nil {
				return
			}
		}
	}
	go func() { // until the listener is closed
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c) // until the client closes the connection
		}
	}()
	return l.Addr().String()
}

// redirected returns the node at an address to which a node redirects.
func redirected(f *Fleet, n *Node, addr string) *Node {
	to, _ := f.Redirected(n, Reply("MOVED 1 "+addr), false)
	return to
}
