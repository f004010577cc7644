package resp

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

func TestMaxClientsRefusesFurtherConnections(t *testing.T) {
	var logged proxytest.LockedBuffer
	srv, addr := start(t, Config{MaxClients: 1, Logger: slog.New(slog.NewTextHandler(&logged, nil))}, handlerFuncs{open: trust, serve: likeRedis})
	first := dial(t, addr)
	send(t, first, "PING\r\n")
	expect(t, first, "+PONG\r\n")
	expectEnd(t, dial(t, addr), "-ERR max number of clients reached\r\n")
	require.EqualValues(t, 1, srv.Stats().RejectedMax.Load())
	require.Contains(t, logged.String(), `level=WARN msg="refused a client because maxclients are connected" maxclients=1 addr=127.0.0.1:`)

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 0 }, 10*time.Second, time.Millisecond)
	second := dial(t, addr)
	send(t, second, "PING\r\n")
	expect(t, second, "+PONG\r\n")
}

func TestHTTPIsLoggedOncePerMinute(t *testing.T) {
	var logged proxytest.LockedBuffer
	srv, addr := start(t, Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, handlerFuncs{open: trust, serve: likeRedis})
	for range 3 {
		conn := dial(t, addr)
		send(t, conn, "POST / HTTP/1.1\r\nHost: here\r\n\r\nPING\r\n")
		expectEnd(t, conn, "")
	}
	require.EqualValues(t, 3, srv.Stats().HTTP.Load())
	require.Equal(t, 1, strings.Count(logged.String(), "HTTP"))
}

// stranger accepts connections that seem to come from another machine.
type stranger struct{ net.Listener }

type strangerConn struct{ net.Conn }

func (l stranger) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return strangerConn{conn}, err
}

func (strangerConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}
}

func TestProtectedModeRefusesOtherMachines(t *testing.T) {
	for _, protected := range []bool{true, false} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		srv := startOn(t, Config{ProtectedMode: protected}, handlerFuncs{open: trust, serve: likeRedis}, stranger{ln})
		conn := dial(t, ln.Addr().String())
		if protected {
			reply, err := io.ReadAll(conn)
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(reply), "-DENIED Redis is running in protected mode"), "%s", reply)
			require.Equal(t, 1, strings.Count(string(reply), "\n"))
			require.EqualValues(t, 1, srv.Stats().RejectedMode.Load())
			srv.SetProtectedMode(false)
			conn = dial(t, ln.Addr().String())
		}
		send(t, conn, "PING\r\n")
		expect(t, conn, "+PONG\r\n")
	}
	_, local := start(t, Config{ProtectedMode: true}, handlerFuncs{open: trust, serve: likeRedis})
	conn := dial(t, local)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
}

// A client of a Unix socket has no address. As in Redis, it gets that of the socket.
func TestClientsOfAUnixSocketHaveItsAddress(t *testing.T) {
	dir, err := os.MkdirTemp("", "resp") // t.TempDir may be too long for a socket
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	socket := filepath.Join(dir, "s")
	ln, err := net.Listen("unix", socket)
	require.NoError(t, err)
	startOn(t, Config{}, handlerFuncs{open: trust, serve: func(s *Session, pipeline []Command) {
		for range pipeline {
			s.Out = AppendBulkString(s.Out, s.Remote.String())
		}
	}}, ln)
	conn, err := net.Dial("unix", socket)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	send(t, conn, "PING\r\n")
	expect(t, conn, fmt.Sprintf("$%d\r\n%s\r\n", len(socket), socket))
	require.NoError(t, conn.Close())
}
