package resp

import (
	"context"
	"crypto/tls"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// suspending is a Handler whose sessions are suspended by the command wait, and answer +resumed when they are resumed.
// It reports sessions when they are suspended, and when they end.
type suspending struct {
	starter
	suspended chan *Session
	closed    chan *Session
	early     bool // Resume is called before Suspend
}

func newSuspending() *suspending {
	h := &suspending{suspended: make(chan *Session, 2000), closed: make(chan *Session, 2000)}
	h.open, h.serve = trust, h.answer
	h.close = func(s *Session) { h.closed <- s }
	h.resumes = func(s *Session) { s.Out = AppendSimple(s.Out, "resumed") }
	return h
}

func (h *suspending) answer(s *Session, pipeline []Command) {
	for i, command := range pipeline {
		if string(command[0]) == "wait" {
			if h.early {
				s.Resume()
			}
			s.Suspend(len(pipeline) - i - 1)
			h.suspended <- s
			return
		}
		s.Out = AppendSimple(s.Out, string(command[0]))
	}
}

// CanStart implements Starter: only the last command of a started pipeline may suspend its session.
func (h *suspending) CanStart(_ *Session, pipeline []Command) bool { return len(pipeline) == 1 }

// forSuspended runs a test with a client whose session has its own goroutine when it is suspended, with one whose
// session is in an event loop, and with one under TLS.
func forSuspended(t *testing.T, test func(t *testing.T, srv *Server, h *suspending, conn net.Conn)) {
	t.Run("goroutine", func(t *testing.T) {
		h := newSuspending()
		srv, addr := start(t, Config{}, h)
		test(t, srv, h, dial(t, addr))
	})
	t.Run("event loop", func(t *testing.T) {
		h := newSuspending()
		srv, addr := start(t, Config{}, h)
		conn := dial(t, addr)
		park(t, srv, dial(t, addr), conn)
		test(t, srv, h, conn)
	})
	t.Run("TLS", func(t *testing.T) {
		h := newSuspending()
		srv, addr, cfg := serveTLS(t, Config{}, h)
		test(t, srv, h, tls.Client(dial(t, addr), cfg))
	})
}

// park has a connection's session park, by commands of two clients in turn.
func park(t *testing.T, srv *Server, other, conn net.Conn) {
	for range 1000 {
		for _, c := range []net.Conn{other, conn} {
			send(t, c, "x\r\n")
			expect(t, c, "+x\r\n")
		}
		if places(srv)[parked] == 2 {
			return
		}
	}
	t.Fatal("no session parks")
}

func receive[T any](t *testing.T, from chan T) (x T) {
	t.Helper()
	select {
	case x = <-from:
	case <-time.After(20 * time.Second):
		t.Fatal("nothing came")
	}
	return x
}

// holds waits until a server holds a number of sessions.
func holds(t *testing.T, srv *Server, n int) {
	t.Helper()
	require.Eventually(t, func() bool { return places(srv)[held] == n }, 20*time.Second, time.Millisecond)
}

func TestASuspendedSessionAnswersWhatIsBehindWhenItIsResumed(t *testing.T) {
	forSuspended(t, func(t *testing.T, srv *Server, h *suspending, conn net.Conn) {
		for range 3 {
			send(t, conn, "wait\r\n")
			s := receive(t, h.suspended)
			holds(t, srv, 1)
			s.Resume()
			expect(t, conn, "+resumed\r\n")
			send(t, conn, "a\r\nwait\r\nb\r\nwait\r\nc\r\n")
			expect(t, conn, "+a\r\n")
			s = receive(t, h.suspended)
			send(t, conn, "d\r\n")
			holds(t, srv, 1)
			s.Resume()
			expect(t, conn, "+resumed\r\n+b\r\n")
			receive(t, h.suspended).Resume()
			expect(t, conn, "+resumed\r\n+c\r\n+d\r\n")
		}
	})
}

func TestASessionMayBeResumedBeforeItIsSuspended(t *testing.T) {
	forSuspended(t, func(t *testing.T, _ *Server, h *suspending, conn net.Conn) {
		h.early = true
		for range 20 {
			send(t, conn, "a\r\nwait\r\nwait\r\nb\r\n")
			expect(t, conn, "+a\r\n+resumed\r\n+resumed\r\n+b\r\n")
			send(t, conn, "wait\r\n")
			expect(t, conn, "+resumed\r\n")
		}
	})
}

func TestASuspendedSessionEndsWhenItsClientGoesAway(t *testing.T) {
	for name, leave := range map[string]func(t *testing.T, srv *Server, s *Session, conn net.Conn){
		"closes": func(t *testing.T, _ *Server, _ *Session, conn net.Conn) { require.NoError(t, conn.Close()) },
		"sends more and closes": func(t *testing.T, _ *Server, _ *Session, conn net.Conn) {
			send(t, conn, "a\r\nb\r\n")
			require.NoError(t, conn.Close())
		},
		"is killed": func(t *testing.T, srv *Server, s *Session, _ net.Conn) { require.True(t, srv.Kill(s.ID)) },
	} {
		t.Run(name, func(t *testing.T) {
			forSuspended(t, func(t *testing.T, srv *Server, h *suspending, conn net.Conn) {
				h.resumes = func(*Session) { t.Error("resumed") }
				send(t, conn, "wait\r\n")
				s := receive(t, h.suspended)
				holds(t, srv, 1)
				require.False(t, s.Gone())
				leave(t, srv, s, conn)
				require.Same(t, s, receive(t, h.closed))
				s.Resume() // too late, and harmless
			})
		})
	}
}

func TestAClientThatClosesBeforeItsSessionIsSuspendedIsNoticed(t *testing.T) {
	h := newSuspending()
	_, addr := start(t, Config{}, h)
	for range 50 {
		conn := dial(t, addr)
		send(t, conn, "wait\r\n")
		require.NoError(t, conn.Close())
		receive(t, h.closed)
	}
}

func TestADrainResumesSuspendedSessions(t *testing.T) {
	forSuspended(t, func(t *testing.T, srv *Server, h *suspending, conn net.Conn) {
		send(t, conn, "wait\r\nb\r\n")
		receive(t, h.suspended)
		holds(t, srv, 1)
		require.NoError(t, srv.Shutdown(context.Background()))
		expectEnd(t, conn, "+resumed\r\n+b\r\n")
	})
}

func TestSuspendedSessionsOutliveTheTimeout(t *testing.T) {
	h := newSuspending()
	srv, addr := start(t, Config{Timeout: 20 * time.Millisecond}, h)
	conn, idle := dial(t, addr), dial(t, addr)
	send(t, conn, "wait\r\n")
	s := receive(t, h.suspended)
	expectEnd(t, idle, "")
	require.Eventually(t, func() bool { return srv.Stats().Idle.Load() == 1 }, 20*time.Second, time.Millisecond)
	holds(t, srv, 1)
	s.Resume()
	expectEnd(t, conn, "+resumed\r\n")
}

func TestSuspendedSessionsHaveNeitherGoroutinesNorBuffers(t *testing.T) {
	h := newSuspending()
	srv, addr := start(t, Config{}, h)
	const clients = 300
	before := runtime.NumGoroutine()
	for range clients {
		send(t, dial(t, addr), "wait\r\n")
		receive(t, h.suspended)
	}
	holds(t, srv, clients)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() < before+20 }, 20*time.Second, time.Millisecond)
	srv.Sessions(func(s *Session) { require.Nil(t, s.in.ws) })
}
