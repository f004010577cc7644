package web

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Connections that send nothing, or never complete a header, are replaced by new ones.
func TestSilentConnectionsDoNotLockOthersOut(t *testing.T) {
	t.Parallel()
	s := start(t, Rules{ACL: users(t)}, NoNodes, nil)
	var silent []net.Conn
	for i := range 3 * MaxConnections {
		c, err := net.Dial("tcp", s.addr)
		require.NoError(t, err)
		defer func() { _ = c.Close() }()
		if i%2 == 0 {
			_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nX-Slow: ")
			require.NoError(t, err)
		}
		silent = append(silent, c)
	}
	for range 3 {
		code, _ := s.get(t, "/healthz", "")
		require.Equal(t, http.StatusOK, code)
	}
	require.NoError(t, silent[0].SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err := silent[0].Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, net.ErrClosed)
	s.conns.mu.Lock()
	defer s.conns.mu.Unlock()
	require.LessOrEqual(t, s.conns.open.Len(), MaxConnections)
	require.Zero(t, s.conns.refused.Load())
}

// pipe is one side of a connection from an address.
type pipe struct {
	net.Conn
	from net.IP
}

func (p pipe) RemoteAddr() net.Addr { return &net.TCPAddr{IP: p.from, Port: 1} }

// connect adds a connection from the address 192.0.2.last, and returns its other side, too.
func (c *conns) connect(t *testing.T, last byte) (here *conn, there net.Conn) {
	t.Helper()
	nc, there := net.Pipe()
	t.Cleanup(func() { require.NoError(t, errors.Join(nc.Close(), there.Close())) })
	return c.add(pipe{nc, net.IPv4(192, 0, 2, last)}), there
}

// However many connections come from one address, those of another one are not replaced, even before
// they have sent a request.
func TestOneAddressReplacesOnlyItsOwnConnections(t *testing.T) {
	t.Parallel()
	c := &conns{max: 4}
	connect := func(last byte) *conn {
		here, _ := c.connect(t, last)
		return here
	}
	probe := connect(1)
	for range 20 {
		require.NotNil(t, connect(2))
		require.NotNil(t, probe.at, "the connection is still open")
	}
	other := connect(3) // replaces one of 2
	require.NotNil(t, probe.at)
	for range 20 {
		require.NotNil(t, connect(2))
		require.NotNil(t, other.at)
	}
	require.Equal(t, 4, c.len())
}

// Of connections of one address, the one that has been idle for longest is replaced and closed.
func TestTheConnectionThatIsIdleForLongestIsReplaced(t *testing.T) {
	t.Parallel()
	c := &conns{max: 3}
	first, _ := c.connect(t, 1)
	second, far := c.connect(t, 1)
	third, _ := c.connect(t, 1)
	first.setBusy(true)
	first.setBusy(false)
	fourth, _ := c.connect(t, 1)
	require.Nil(t, second.at)
	_, err := far.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	second.setBusy(false) // its request ends only now
	third.setBusy(true)
	fifth, _ := c.connect(t, 1)
	require.Nil(t, first.at)
	require.NoError(t, third.Close())
	require.Equal(t, 2, c.len())
	c.closeIdle()
	require.Zero(t, c.len())
	for _, closed := range []*conn{fourth, fifth} {
		_, err := closed.Write([]byte("x"))
		require.ErrorIs(t, err, io.ErrClosedPipe)
	}
}

// A connection that is kept open after a request is idle.
func TestConnectionsAreIdleAfterARequest(t *testing.T) {
	t.Parallel()
	s := start(t, Rules{ACL: users(t)}, NoNodes, nil)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	_, err = io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	_, err = c.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.idle() != nil
	}, 20*time.Second, time.Millisecond)
}

// A connection with a request in progress is not closed for a new one. If all are busy, a new
// connection is refused.
func TestBusyConnectionsAreNotReplaced(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	s := start(t, Rules{ACL: users(t)}, NoNodes, func(s *Server) {
		s.conns.max = 2
		s.http.Handler = s.guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			<-release
			writeLine(w, "done")
		}))
	})
	answers := make(chan string, 2)
	for range 2 {
		go func() { // ends when the handler is released
			answers <- s.raw(t, "GET /healthz HTTP/1.0\r\n\r\n")
		}()
	}
	require.Eventually(t, func() bool {
		s.conns.mu.Lock()
		defer s.conns.mu.Unlock()
		return s.conns.open.Len() == 2 && s.conns.idle() == nil
	}, 20*time.Second, time.Millisecond)
	c, err := net.Dial("tcp", s.addr)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	require.NoError(t, c.SetReadDeadline(time.Now().Add(20*time.Second)))
	_, err = c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 1, s.conns.refused.Load())
	close(release)
	for range 2 {
		require.True(t, strings.HasSuffix(<-answers, "done\n"))
	}
}

func TestHugeAndSlowHeadersAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, Rules{ACL: users(t)}, NoNodes, func(s *Server) { s.http.ReadHeaderTimeout = 100 * time.Millisecond })
	got := s.raw(t, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"+strings.Repeat(fmt.Sprintf("X: %01000d\r\n", 0), 30)+"\r\n")
	require.True(t, strings.HasPrefix(got, "HTTP/1.1 431 "), got)
	require.Empty(t, s.raw(t, "GET /healthz HTTP/1.1\r\nHost: "), "the connection is closed without an answer")
}
