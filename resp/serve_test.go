package resp

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

func BenchmarkServe64(b *testing.B) {
	_, addr := start(b, Config{}, handlerFuncs{open: trust, serve: func(s *Session, pipeline []Command) {
		for range pipeline {
			s.Out = AppendInt(s.Out, 1)
		}
	}})
	conn, err := net.Dial("tcp", addr)
	require.NoError(b, err)
	defer func() { _ = conn.Close() }()
	request, reply := []byte(strings.Repeat(slide, 64)), make([]byte, 64*4)
	b.ReportAllocs()
	commands := 0
	for b.Loop() {
		if _, err := conn.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(conn, reply); err != nil {
			b.Fatal(err)
		}
		commands += 64
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(commands), "ns/command")
}

func TestIdleClientsAreClosed(t *testing.T) {
	srv, addr := start(t, Config{Timeout: time.Second}, handlerFuncs{open: trust, serve: likeRedis})
	conn := dial(t, addr)
	send(t, conn, "PING\r\n*1\r\n$4\r\nPI")
	expectEnd(t, conn, "+PONG\r\n")
	require.EqualValues(t, 1, srv.Stats().Idle.Load())
}

func TestLimitsCloseConnection(t *testing.T) {
	half := "*1\r\n$1000000\r\n" + strings.Repeat("x", 900_000)
	for name, cfg := range map[string]Config{
		"query buffer":          {QueryBufferLimit: 100_000},
		"memory of all clients": {Memory: NewBudget(100_000)},
	} {
		t.Run(name, func(t *testing.T) {
			closed, over := ended()
			srv, addr := start(t, cfg, handlerFuncs{open: trust, serve: echoArgs, close: closed})
			conn := dial(t, addr)
			_, _ = io.WriteString(conn, half) // fails if the server closes first
			<-over
			require.EqualValues(t, 1, srv.Stats().QueryLimit.Load()+srv.Stats().MemoryLimit.Load())
		})
	}
}

func TestPanicCostsOneConnection(t *testing.T) {
	closed, over := ended()
	var logged proxytest.LockedBuffer
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
	require.Contains(t, logged.String(), "serve_test.go", "the stack shows where")
}

func TestCloseAfterReplyDropsLaterCommands(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	conn := dial(t, addr)
	send(t, conn, "PING\r\nQUIT\r\nPING\r\n*x\r\n")
	expectEnd(t, conn, "+PONG\r\n+OK\r\n")
}

// Replies to arbitrary bytes are those of a real Redis, byte for byte.
func TestRepliesAreThoseOfRedis(t *testing.T) {
	open := redisServer(t)
	locked := redisServer(t, "--requirepass", "secret")
	_, ours := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	_, oursLocked := start(t, Config{}, handlerFuncs{serve: likeRedis})
	same := func(redis, rlproxy, text string) {
		want, got := converse(t, "unix", redis, text, true), converse(t, "tcp", rlproxy, text, false)
		if want != got {
			require.Fail(t, "reply differs from Redis's", "to %.200q: %.200q, want %.200q", text, got, want)
		}
	}
	for _, text := range append([]string{
		"PING\r\nQUIT\r\nPING\r\n",
		"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\rb\r\n*1\r\n$1\r\n\xff\r\n",
		"*1\r\n\x80\r\n", "x\xffy \xfe\r\n",
	}, corpus...) {
		same(open, ours, text)
		same(locked, oursLocked, text)
	}
	same(open, ours, strings.Repeat("PING\r\n", 5000))
	same(open, ours, strings.Repeat("*1\r\n$4\r\nPING\r\n", 5000)+"*x\r\n")
	same(locked, oursLocked, "AUTH secret\r\n*11\r\n"+strings.Repeat("$4\r\nECHO\r\n", 11))
	same(locked, oursLocked, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"+
		"*2\r\n$4\r\nECHO\r\n$20000\r\n"+strings.Repeat("x", 20_000)+"\r\n")
}

// redis-cli --pipe ends its data with an empty line and an ECHO, and waits for the reply.
func TestRedisCLIPipeGetsAllReplies(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-cli", "-h", host, "-p", port, "--pipe")
	cmd.Stdin = strings.NewReader(strings.Repeat("*1\r\n$4\r\nPING\r\n", 100_000))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "errors: 0, replies: 100000")
}

func TestRepliesKeepTheOrderOfThePipeline(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, "*1\r\n$1\r\na\r\nb 'c d'\r\n\r\n*0\r\n*-1\r\n*2\r\n$0\r\n\r\n$1\r\ne\r\n")
	expect(t, conn, "*1\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n$3\r\nc d\r\n*2\r\n$0\r\n\r\n$1\r\ne\r\n")
}

func TestProtocolErrorFollowsTheRepliesBeforeIt(t *testing.T) {
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := dial(t, addr)
	send(t, conn, "a\r\n*1\r\n:1\r\n$1\r\nb\r\n")
	expectEnd(t, conn, "*1\r\n$1\r\na\r\n-ERR Protocol error: expected '$', got ':'\r\n")
	require.EqualValues(t, 1, srv.Stats().ProtocolErrors.Load())
}

// Another client does not wait until a client's million commands are answered.
func TestGiantPipelineDoesNotStarveOtherClients(t *testing.T) {
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

func TestSessionsUnderTLSAreServed(t *testing.T) {
	srv, addr, trust := startTLS(t, Config{})
	conn := tls.Client(dial(t, addr), trust)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
	srv.Sessions(func(s *Session) { require.True(t, s.TLS) })
	deep := strings.Repeat("*2\r\n$4\r\nECHO\r\n$9\r\nsomething\r\n", 2000) // larger than any buffer
	go send(t, conn, deep)
	expect(t, conn, strings.Repeat("$9\r\nsomething\r\n", 2000))
	send(t, conn, "PING\r\n*x\r\n")
	expectEnd(t, conn, "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n")
}

func TestTLSHandshakeIsBounded(t *testing.T) {
	srv, addr, _ := startTLS(t, Config{HandshakeTimeout: 50 * time.Millisecond})
	expectEnd(t, dial(t, addr), "")
	require.Eventually(t, func() bool { return srv.Stats().HandshakeFails.Load() == 1 }, 10*time.Second, time.Millisecond)
}
