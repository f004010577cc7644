package resp

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// handlerFuncs is a Handler of functions; those that are nil do nothing.
type handlerFuncs struct {
	open  func(*Session)
	serve func(*Session, []Command)
	close func(*Session)
}

func (h handlerFuncs) Open(s *Session) {
	if h.open != nil {
		h.open(s)
	}
}

func (h handlerFuncs) Serve(s *Session, pipeline []Command) {
	if h.serve != nil {
		h.serve(s, pipeline)
	}
}

func (h handlerFuncs) Close(s *Session) {
	if h.close != nil {
		h.close(s)
	}
}

// trust is the open of handlers that ask for no password.
func trust(s *Session) { s.Trusted = true }

// echoArgs answers each command with its arguments.
func echoArgs(s *Session, pipeline []Command) {
	for _, cmd := range pipeline {
		s.Out = AppendArray(s.Out, len(cmd))
		for _, arg := range cmd {
			s.Out = AppendBulk(s.Out, arg)
		}
	}
}

var quiet = slog.New(slog.DiscardHandler)

// start serves h on a free port and returns the server and its address. The server
// is shut down, and joined, at the end of the test.
func start(t testing.TB, cfg Config, h Handler) (*Server, string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return startOn(t, cfg, h, ln), ln.Addr().String()
}

func startOn(t testing.TB, cfg Config, h Handler, ln net.Listener) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	srv := NewServer(cfg, h)
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = srv.Shutdown(ctx) // cuts off what the test left open
		require.NoError(t, <-served)
		require.Zero(t, srv.Stats().Current.Load())
		require.Zero(t, srv.Stats().Held.Load())
	})
	return srv
}

// dial connects, with a deadline for everything that the test then does.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	require.NoError(t, conn.SetDeadline(time.Now().Add(20*time.Second)))
	return conn
}

func send(t testing.TB, conn net.Conn, text string) {
	t.Helper()
	_, err := io.WriteString(conn, text)
	require.NoError(t, err)
}

// expect reads exactly want.
func expect(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	require.NoError(t, err, "after %q", got[:n])
	require.Equal(t, want, string(got))
}

// expectEnd reads want and then the end of the connection.
func expectEnd(t testing.TB, conn net.Conn, want string) {
	t.Helper()
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	require.Equal(t, want, string(got))
}

func TestPipelineOrder(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, "*1\r\n$1\r\na\r\nb 'c d'\r\n\r\n*0\r\n*-1\r\n*2\r\n$0\r\n\r\n$1\r\ne\r\n")
	expect(t, conn, "*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$3\r\nc d\r\n*2\r\n$0\r\n\r\n$1\r\ne\r\n")
}

func TestProtocolErrorAfterReplies(t *testing.T) {
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, "a\r\n*1\r\n:1\r\n$1\r\nb\r\n")
	expectEnd(t, conn, "*1\r\n$1\r\na\r\n-ERR Protocol error: expected '$', got ':'\r\n")
	require.EqualValues(t, 1, srv.Stats().ProtocolErrors.Load())
}

// One client's million commands do not keep another waiting until they are done.
func TestGiantPipelineStarvesNobody(t *testing.T) {
	const commands = 1_000_000
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	greedy, modest := dial(t, addr), dial(t, addr)
	go func() {
		for range 100 {
			send(t, greedy, strings.Repeat("PING\r\n", commands/100))
		}
	}()
	var answered atomic.Int64
	var done sync.WaitGroup
	begun := make(chan struct{})
	done.Go(func() {
		buf := make([]byte, 64<<10)
		for got := 0; got < commands*len("+PONG\r\n"); {
			n, err := greedy.Read(buf)
			if err != nil {
				t.Errorf("after %d bytes: %v", got, err)
				return
			}
			if got == 0 {
				close(begun)
			}
			got += n
			answered.Store(int64(got / len("+PONG\r\n")))
		}
	})
	<-begun
	for range 10 {
		send(t, modest, "PING\r\n")
		expect(t, modest, "+PONG\r\n")
	}
	require.Less(t, answered.Load(), int64(commands), "the modest client had to wait for the greedy one")
	done.Wait()
	require.EqualValues(t, commands, answered.Load())
}
