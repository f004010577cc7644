package resp

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ended returns a handler's close and a channel that gets every session it is
// called for.
func ended() (func(*Session), chan *Session) {
	c := make(chan *Session, 100)
	return func(s *Session) { c <- s }, c
}

func TestMaxClients(t *testing.T) {
	srv, addr := start(t, Config{MaxClients: 1}, handlerFuncs{open: trust, serve: likeRedis})
	first := dial(t, addr)
	send(t, first, "PING\r\n")
	expect(t, first, "+PONG\r\n")
	expectEnd(t, dial(t, addr), "-ERR max number of clients reached\r\n")
	require.EqualValues(t, 1, srv.Stats().RejectedMax.Load())

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 0 }, 10*time.Second, time.Millisecond)
	second := dial(t, addr)
	send(t, second, "PING\r\n")
	expect(t, second, "+PONG\r\n")
}

func TestIdleTimeout(t *testing.T) {
	srv, addr := start(t, Config{Timeout: 20 * time.Millisecond}, handlerFuncs{open: trust, serve: likeRedis})
	conn := dial(t, addr)
	send(t, conn, "PING\r\n*1\r\n$4\r\nPI")
	expectEnd(t, conn, "+PONG\r\n")
	require.EqualValues(t, 1, srv.Stats().Idle.Load())
}

func TestSlowReader(t *testing.T) {
	closed, over := ended()
	big := strings.Repeat("x", 1<<20)
	srv, addr := start(t, Config{WriteTimeout: 30 * time.Millisecond}, handlerFuncs{open: trust, close: closed,
		serve: func(s *Session, pipeline []Command) {
			for range pipeline {
				s.Out = AppendBulkString(s.Out, big)
			}
		}})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("GET x\r\n", 64))
	<-over
	require.EqualValues(t, 1, srv.Stats().SlowReaders.Load())
}

// A long reply over a slow line is no reason to close as long as it moves.
func TestLongReplyToReader(t *testing.T) {
	big := strings.Repeat("x", 32<<20)
	srv, addr := start(t, Config{}, handlerFuncs{open: trust,
		serve: func(s *Session, _ []Command) { s.Out = AppendBulkString(s.Out, big) }})
	conn := dial(t, addr)
	send(t, conn, "GET x\r\n")
	expect(t, conn, string(AppendBulkString(nil, big)))
	require.Zero(t, srv.Stats().SlowReaders.Load())
}

// Flush keeps a pipeline's large replies from adding up.
func TestFlush(t *testing.T) {
	big := strings.Repeat("x", 600)
	srv, addr := start(t, Config{OutputBufferLimit: 1000}, handlerFuncs{open: trust,
		serve: func(s *Session, pipeline []Command) {
			for range pipeline {
				s.Out = AppendBulkString(s.Out, big)
				s.Flush()
			}
		}})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("GET x\r\n", 10))
	expect(t, conn, strings.Repeat(string(AppendBulkString(nil, big)), 10))
	big = strings.Repeat("y", 2000)
	send(t, conn, strings.Repeat("GET x\r\n", 10))
	expectEnd(t, conn, "")
	require.EqualValues(t, 1, srv.Stats().OutputLimit.Load())

	alone := Session{Out: []byte("kept")}
	alone.Flush()
	require.Equal(t, "kept", string(alone.Out))
}

func TestOutputBufferLimit(t *testing.T) {
	srv, addr := start(t, Config{OutputBufferLimit: 1000}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("x", 900)+"\r\n")
	expect(t, conn, "*1\r\n$900\r\n"+strings.Repeat("x", 900)+"\r\n")
	send(t, conn, strings.Repeat("x", 1000)+"\r\n")
	expectEnd(t, conn, "")
	require.EqualValues(t, 1, srv.Stats().OutputLimit.Load())
}

func TestLimitsCloseConnection(t *testing.T) {
	half := "*1\r\n$1000000\r\n" + strings.Repeat("x", 900_000)
	for name, cfg := range map[string]Config{
		"query buffer":   {QueryBufferLimit: 100_000},
		"all the memory": {ClientMemory: 100_000},
	} {
		t.Run(name, func(t *testing.T) {
			closed, over := ended()
			srv, addr := start(t, cfg, handlerFuncs{open: trust, serve: echoArgs, close: closed})
			conn := dial(t, addr)
			_, _ = io.WriteString(conn, half) // fails when the server is quicker
			<-over
			require.EqualValues(t, 1, srv.Stats().QueryLimit.Load()+srv.Stats().MemoryLimit.Load())
		})
	}
}

func TestPanicCostsOneConnection(t *testing.T) {
	closed, over := ended()
	var logged syncBuffer
	srv, addr := start(t, Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, handlerFuncs{open: trust, close: closed,
		serve: func(s *Session, pipeline []Command) {
			if string(pipeline[0][0]) == "boom" {
				panic("as asked")
			}
			likeRedis(s, pipeline)
		}})
	other, conn := dial(t, addr), dial(t, addr)
	send(t, conn, "boom\r\n")
	expectEnd(t, conn, "")
	require.NotNil(t, <-over, "Close follows Open, whatever happens between")
	send(t, other, "PING\r\n")
	expect(t, other, "+PONG\r\n")
	require.EqualValues(t, 1, srv.Stats().Panics.Load())
	require.Contains(t, logged.String(), "as asked")
	require.Contains(t, logged.String(), "limits_test.go", "the stack shows where")
}

func TestHTTPIsLoggedOnce(t *testing.T) {
	var logged syncBuffer
	srv, addr := start(t, Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, handlerFuncs{open: trust, serve: likeRedis})
	for range 3 {
		conn := dial(t, addr)
		send(t, conn, "POST / HTTP/1.1\r\nHost: here\r\n\r\nPING\r\n")
		expectEnd(t, conn, "")
	}
	require.EqualValues(t, 3, srv.Stats().HTTP.Load())
	require.Equal(t, 1, strings.Count(logged.String(), "HTTP"))
}

func TestKillAndSessions(t *testing.T) {
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	first, second := dial(t, addr), dial(t, addr)
	for _, conn := range []net.Conn{first, second} {
		send(t, conn, "PING\r\n")
		expect(t, conn, "+PONG\r\n")
	}
	var ids []int64
	srv.Sessions(func(s *Session) {
		ids = append(ids, s.ID)
		require.False(t, s.LastActive().Before(s.Created))
	})
	require.Len(t, ids, 2)
	require.Less(t, ids[0], ids[1])
	require.False(t, srv.Kill(99))
	var victim net.Conn
	srv.Sessions(func(s *Session) {
		if s.Remote.String() == first.LocalAddr().String() {
			victim = first
			require.True(t, srv.Kill(s.ID))
		}
	})
	require.Equal(t, first, victim)
	expectEnd(t, first, "")
	require.Eventually(t, func() bool { return srv.Stats().Killed.Load() == 1 }, 10*time.Second, time.Millisecond)
	send(t, second, "PING\r\n")
	expect(t, second, "+PONG\r\n")
}

func TestCloseAfterReply(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	conn := dial(t, addr)
	send(t, conn, "PING\r\nQUIT\r\nPING\r\n*x\r\n")
	expectEnd(t, conn, "+PONG\r\n+OK\r\n")
}

// stranger makes connections that seem to come from another machine.
type stranger struct{ net.Listener }

type strangerConn struct{ net.Conn }

func (l stranger) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	return strangerConn{conn}, err
}

func (strangerConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7}
}

func TestProtectedMode(t *testing.T) {
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

// flaky fails its first calls of Accept, as a process without descriptors does.
type flaky struct {
	net.Listener
	failures int
}

func (l *flaky) Accept() (net.Conn, error) {
	if l.failures > 0 {
		l.failures--
		return nil, io.ErrUnexpectedEOF
	}
	return l.Listener.Accept()
}

func TestAcceptErrorsPass(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	startOn(t, Config{}, handlerFuncs{open: trust, serve: likeRedis}, &flaky{Listener: ln, failures: 3})
	conn := dial(t, ln.Addr().String())
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
}

func TestServeFailsOnClosedListener(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	require.ErrorIs(t, NewServer(Config{Logger: quiet}, handlerFuncs{}).Serve(ln), net.ErrClosed)
}

// syncBuffer is a log that may be read while it is written.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}
