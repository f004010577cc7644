package resp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// What holds for sessions with goroutines holds for those without.
func TestInEventLoop(t *testing.T) {
	for name, test := range map[string]func(*testing.T){
		"TestIdleClientsAreClosed":                    TestIdleClientsAreClosed,
		"TestLimitsCloseConnection":                   TestLimitsCloseConnection,
		"TestPanicCostsOneConnection":                 TestPanicCostsOneConnection,
		"TestCloseAfterReplyDropsLaterCommands":       TestCloseAfterReplyDropsLaterCommands,
		"TestRepliesAreThoseOfRedis":                  TestRepliesAreThoseOfRedis,
		"TestRedisCLIPipeGetsAllReplies":              TestRedisCLIPipeGetsAllReplies,
		"TestRepliesKeepTheOrderOfThePipeline":        TestRepliesKeepTheOrderOfThePipeline,
		"TestProtocolErrorFollowsTheRepliesBeforeIt":  TestProtocolErrorFollowsTheRepliesBeforeIt,
		"TestSessionsUnderTLSAreServed":               TestSessionsUnderTLSAreServed,
		"TestDrainUnderLoadAnswersEveryCommandServed": TestDrainUnderLoadAnswersEveryCommandServed,
		"TestDrainAnswersWhatArrived":                 TestDrainAnswersWhatArrived,
		"TestDrainAnswersWhatArrivesMeanwhile":        TestDrainAnswersWhatArrivesMeanwhile,
		"TestDrainDoesNotResetReplies":                TestDrainDoesNotResetReplies,
		"TestDrainClosesSilentClients":                TestDrainClosesSilentClients,
		"TestDrainCutsOffSlowReadersAtItsEnd":         TestDrainCutsOffSlowReadersAtItsEnd,
		"TestKillClosesTheSessionThatSessionsShows":   TestKillClosesTheSessionThatSessionsShows,
	} {
		t.Run(name, test)
	}
}

// startInLoop is start with a handler that starts every command.
func startInLoop(t *testing.T, cfg Config, funcs handlerFuncs) (*Server, *starter, string) {
	h := &starter{handlerFuncs: funcs}
	srv, addr := start(t, cfg, h)
	return srv, h, addr
}

// ask sends a command and expects it back.
func ask(t testing.TB, conn net.Conn, word string) {
	t.Helper()
	send(t, conn, word+"\r\n")
	expect(t, conn, string(AppendBulkString(AppendArray(nil, 1), word)))
}

// places returns how many sessions are in each place.
func places(srv *Server) map[int32]int {
	n := map[int32]int{}
	srv.Sessions(func(s *Session) { n[s.stage.Load()]++ })
	return n
}

// parkedOne connects a client whose session has no goroutine when parkedOne returns.
func parkedOne(t *testing.T, srv *Server, addr string) net.Conn {
	conn := dial(t, addr)
	ask(t, conn, "hello")
	require.Eventually(t, func() (is bool) {
		srv.Sessions(func(s *Session) {
			is = is || s.Remote.String() == conn.LocalAddr().String() && s.stage.Load() == parked
		})
		return is
	}, 10*time.Second, time.Millisecond)
	return conn
}

// expectBulk reads a bulk string of n bytes y.
func expectBulk(t *testing.T, conn net.Conn, n int) {
	t.Helper()
	head := fmt.Sprintf("$%d\r\n", n)
	expect(t, conn, head)
	body := make([]byte, n+2)
	read, err := io.ReadFull(conn, body)
	require.NoError(t, err, "after %d bytes", read)
	require.Equal(t, n, bytes.Count(body, []byte("y")))
}

func TestSilentSessionsHaveNoGoroutine(t *testing.T) {
	srv, h, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	const clients, rounds = 50, 100
	before := runtime.NumGoroutine()
	var all sync.WaitGroup
	for range clients {
		conn := dial(t, addr)
		all.Go(func() {
			for i := range rounds {
				ask(t, conn, fmt.Sprint("word", i))
			}
		})
	}
	all.Wait()
	require.Greater(t, h.starts.Load(), int64(clients*rounds/2))
	require.Eventually(t, func() bool { return places(srv)[parked] > clients-5 }, 10*time.Second, time.Millisecond,
		"but those that were alone at the end")
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < before+15 }, 10*time.Second, time.Millisecond)
	require.EqualValues(t, clients*rounds, srv.Stats().Commands.Load())
	require.EqualValues(t, clients*rounds, srv.Stats().Pipelines.Load())
}

func TestALonelySessionHasAGoroutine(t *testing.T) {
	srv, h, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := parkedOne(t, srv, addr)
	for range 3 * quietTurns {
		ask(t, conn, "x")
	}
	require.Equal(t, 1, places(srv)[own])
	alone := h.starts.Load()
	require.Less(t, alone, int64(2*quietTurns))
	for range 3 * quietTurns {
		other := dial(t, addr)
		ask(t, other, "y")
		ask(t, other, "y")
		ask(t, conn, "x")
	}
	require.Greater(t, h.starts.Load(), alone+quietTurns)
}

// Input other than a few complete commands that arrive together is handled by a goroutine until it is
// answered.
func TestAParkedSessionTakesWhateverArrives(t *testing.T) {
	srv, _, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	large := strings.Repeat("x", 300_000)
	for name, parts := range map[string][]string{
		"a command in parts":        {"*2\r\n$1\r\na", "\r\n$", "1\r\nb\r\n"},
		"more than a buffer":        {"*2\r\n$1\r\na\r\n$300000\r\n" + large + "\r\n"},
		"exactly a buffer":          {"*2\r\n$1\r\na\r\n$16363\r\n" + large[:16363] + "\r\n"},
		"many commands":             {strings.Repeat("a b\r\n", 5000)},
		"a command and a half":      {"a b\r\na", " b\r\n"},
		"no command":                {"\r\n", "a b\r\n"},
		"commands before the reply": {"a b\r\n", "a b\r\n", "a b\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			conn := parkedOne(t, srv, addr)
			go func() {
				for _, part := range parts {
					_, _ = io.WriteString(conn, part) // the test fails if it does not arrive
					time.Sleep(time.Millisecond)      // so that it is read in parts
				}
			}()
			in := strings.Join(parts, "")
			switch {
			case strings.Contains(in, large[:16363]):
				_, word, _ := strings.Cut(strings.TrimRight(in, "\r\n"), "\r\nx")
				word = "x" + word
				expect(t, conn, string(AppendBulkString(AppendBulkString(AppendArray(nil, 2), "a"), word)))
			default:
				expect(t, conn, strings.Repeat("*2\r\n$1\r\na\r\n$1\r\nb\r\n", strings.Count(in, "b")))
			}
			ask(t, conn, "after")
		})
	}
}

// A session that hears of something to read when there is nothing stays parked.
func TestAnEventWithoutBytesLeavesTheSessionParked(t *testing.T) {
	srv, _, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	conn := parkedOne(t, srv, addr)
	srv.Sessions(func(s *Session) {
		s.readable(false)
		require.EqualValues(t, parked, s.stage.Load())
	})
	ask(t, conn, "after")
}

// A reply that the client does not read waits in a goroutine, and delays no other client.
func TestAParkedSessionThatDoesNotReadHoldsUpNobody(t *testing.T) {
	huge := strings.Repeat("y", 32<<20)
	srv, _, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: func(s *Session, pipeline []Command) {
		for _, cmd := range pipeline {
			switch string(cmd[0]) {
			case "huge":
				s.Out = AppendBulkString(s.Out, huge)
			case "some":
				s.Out = AppendBulkString(s.Out, huge[:joinOut-20])
			default:
				echoArgs(s, []Command{cmd})
			}
		}
	}})
	idle, slow, slower := parkedOne(t, srv, addr), parkedOne(t, srv, addr), parkedOne(t, srv, addr)
	send(t, slow, "huge\r\n")
	const some = 2000
	go func() {
		for range some {
			_, _ = io.WriteString(slower, "some\r\n") // the test fails if it does not arrive
		}
	}()
	for range 20 {
		ask(t, idle, "x")
	}
	expectBulk(t, slow, len(huge))
	ask(t, slow, "after")
	for range some {
		expectBulk(t, slower, joinOut-20)
	}
	ask(t, slower, "after")
}

func TestAParkedSessionThatTheClientLeavesEnds(t *testing.T) {
	closed, over := ended()
	srv, _, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs, close: closed})
	conn := parkedOne(t, srv, addr)
	require.NoError(t, conn.Close())
	<-over
	half := parkedOne(t, srv, addr)
	send(t, half, "last\r\n")
	require.NoError(t, half.(*net.TCPConn).CloseWrite())
	expectEnd(t, half, string(AppendBulkString(AppendArray(nil, 1), "last")))
	<-over
	require.EqualValues(t, 2, srv.Stats().Left.Load())
}

// A parked session expires when its client has been silent for the timeout. Each request begins that time anew.
func TestParkedSessionsExpire(t *testing.T) {
	const timeout = 10 * time.Second
	srv, _, addr := startInLoop(t, Config{Timeout: timeout}, handlerFuncs{open: trust, serve: echoArgs})
	conn := parkedOne(t, srv, addr)
	srv.Sessions(func(s *Session) {
		before := s.parkedAt.Load()
		ask(t, conn, "x")
		require.Eventually(t, func() bool { return s.stage.Load() == parked && s.parkedAt.Load() > before }, 10*time.Second, time.Millisecond)
		s.parkedAt.Add(-int64(timeout)) // as if the client had been silent since then
	})
	expectEnd(t, conn, "")
	require.EqualValues(t, 1, srv.Stats().Idle.Load())
}

// What closes the connection while the session is about to park finds it neither parked nor reading.
func TestAKillIsNotLostWhileTheSessionParks(t *testing.T) {
	closed, over := ended()
	srv, _, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs, close: closed})
	parkedOne(t, srv, addr)
	srv.Sessions(func(s *Session) {
		require.True(t, s.stage.CompareAndSwap(parked, started))
		require.True(t, srv.Kill(s.ID))
		require.True(t, s.wait())
	})
	<-over
	require.Eventually(t, func() bool { return srv.Stats().Killed.Load() == 1 }, 10*time.Second, time.Millisecond)
}

// A panic on the loop's goroutine costs one connection, as any other does.
func TestAPanicInTheEventLoopCostsOneConnection(t *testing.T) {
	closed, over := ended()
	srv, h, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs, close: closed})
	h.startsPanics = "boom"
	other, conn := parkedOne(t, srv, addr), parkedOne(t, srv, addr)
	send(t, conn, "boom\r\n")
	expectEnd(t, conn, "")
	<-over
	ask(t, other, "x")
	require.EqualValues(t, 1, srv.Stats().Panics.Load())
}

// A panic of Flush ends what is flushed, but not the process.
func TestAPanicOfFlushDoesNotEndTheEventLoop(t *testing.T) {
	srv, h, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	var once sync.Once
	h.flushing = func() { once.Do(func() { panic("as asked") }) }
	conn := parkedOne(t, srv, addr)
	for i := range 2 * quietTurns {
		ask(t, conn, fmt.Sprint("word", i))
	}
	require.EqualValues(t, 1, srv.Stats().Panics.Load())
}

func TestShutdownWaitsForTheEventLoops(t *testing.T) {
	srv, h, addr := startInLoop(t, Config{}, handlerFuncs{open: trust, serve: echoArgs})
	flushing, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h.flushing = func() { once.Do(func() { close(flushing); <-release }) }
	send(t, parkedOne(t, srv, addr), "x\r\n")
	<-flushing
	over := make(chan error, 1)
	go func() { over <- srv.Shutdown(context.Background()) }()
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 0 }, 10*time.Second, time.Millisecond)
	select {
	case err := <-over:
		close(release)
		t.Fatalf("an event loop is still running, and Shutdown returned %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	close(release)
	require.NoError(t, <-over)
}

// Clients connect, send requests, leave in the middle and are killed, all at once. Requests that were
// served are answered once, and each session ends once, without a drain.
func TestEverythingAtOnceInEventLoop(t *testing.T) {
	closed := make(chan *Session, 1_000_000) // more than connect in the second of the test
	srv, h, addr := startInLoop(t, Config{Timeout: time.Minute}, handlerFuncs{open: trust, serve: echoArgs, close: func(s *Session) { closed <- s }})
	stop := make(chan struct{})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for {
				conn, err := net.Dial("tcp", addr)
				if err != nil {
					return // out of ports
				}
				for range rand.IntN(30) {
					word := fmt.Sprint("w", rand.IntN(1000))
					if _, err = io.WriteString(conn, word+"\r\n"); err != nil {
						break
					}
					if rand.IntN(20) == 0 {
						break // leaves before the reply
					}
					want := AppendBulkString(AppendArray(nil, 1), word)
					got := make([]byte, len(want))
					if n, err := io.ReadFull(conn, got); err != nil {
						break // killed, or drained
					} else if string(got[:n]) != string(want) {
						t.Errorf("%q instead of %q", got[:n], want)
					}
				}
				_ = conn.Close()
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		srv.Kill(srv.lastID.Load() - rand.Int64N(20))
	}
	close(stop)
	all.Wait()
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 0 }, 10*time.Second, time.Millisecond)
	require.Positive(t, h.starts.Load())
	require.Positive(t, srv.Stats().Killed.Load())
	seen := map[int64]bool{}
	for range srv.Stats().Accepted.Load() {
		s := <-closed
		require.False(t, seen[s.ID], "closed twice")
		seen[s.ID] = true
	}
	require.Empty(t, closed)
	for _, l := range srv.loops {
		require.Empty(t, l.sessions)
	}
}
