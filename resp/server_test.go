package resp

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/stretchr/testify/require"
)

// Every command that reached the handler is answered, and every command that arrived
// completely before the drain reaches the handler.
func TestDrainUnderLoadAnswersEveryCommandServed(t *testing.T) {
	const clients, depth = 20, 50
	var served, answered atomic.Int64
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: func(s *Session, pipeline []Command) {
		served.Add(int64(len(pipeline)))
		echoArgs(s, pipeline)
	}})
	var busy, all sync.WaitGroup
	for c := range clients {
		conn := dial(t, addr)
		busy.Add(1)
		all.Go(func() {
			defer func() { _ = conn.Close() }()
			for round := 0; ; round++ {
				var request, want strings.Builder
				for i := range depth {
					word := fmt.Sprintf("%d-%d-%d", c, round, i)
					fmt.Fprintf(&request, "*1\r\n$%d\r\n%s\r\n", len(word), word)
					fmt.Fprintf(&want, "*1\r\n$%d\r\n%s\r\n", len(word), word)
				}
				if _, err := io.WriteString(conn, request.String()); err != nil {
					return
				}
				got := make([]byte, want.Len())
				n, err := io.ReadFull(conn, got)
				answered.Add(int64(strings.Count(string(got[:n]), "*")))
				if string(got[:n]) != want.String()[:n] {
					t.Errorf("client %d got %q", c, got[:n])
				}
				if err != nil {
					return
				}
				if round == 10 {
					busy.Done()
				}
			}
		})
	}
	busy.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	require.NoError(t, srv.Shutdown(ctx))
	all.Wait()
	require.Equal(t, served.Load(), answered.Load())
}

// Commands that wait in the kernel while the handler is busy are answered too; an
// incomplete command is not.
func TestDrainAnswersWhatArrived(t *testing.T) {
	serve, working, resume := pauseOnce(likeRedis)
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: serve})
	conn := dial(t, addr)
	send(t, conn, "PING\r\n")
	<-working
	send(t, conn, strings.Repeat("PING\r\n", 1000)+"PI")
	left := make(chan error)
	go func() { left <- srv.Shutdown(context.Background()) }()
	require.Eventually(t, srv.draining.Load, 10*time.Second, time.Millisecond)
	close(resume)
	expectEnd(t, conn, strings.Repeat("+PONG\r\n", 1001))
	require.NoError(t, conn.Close())
	require.NoError(t, <-left)
	_, err := net.Dial("tcp", addr)
	require.Error(t, err, "nothing listens after a drain")
}

// What a client has sent when the drain begins is answered, even if its session is
// waiting for it at that moment.
func TestDrainAnswersWhatArrivesMeanwhile(t *testing.T) {
	for range 100 {
		srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
		conn := dial(t, addr)
		send(t, conn, "PING\r\n")
		expect(t, conn, "+PONG\r\n")
		send(t, conn, "PING\r\n")
		left := make(chan error)
		go func() { left <- srv.Shutdown(context.Background()) }()
		expectEnd(t, conn, "+PONG\r\n")
		require.NoError(t, conn.Close())
		require.NoError(t, <-left)
	}
}

// A client that is still sending gets its replies, although the server closes the
// connection with some of its bytes unread.
func TestDrainDoesNotResetReplies(t *testing.T) {
	serve, working, resume := pauseOnce(echoArgs)
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: serve})
	conn := dial(t, addr)
	word := strings.Repeat("x", 1000)
	stop := make(chan struct{})
	var sender sync.WaitGroup
	sender.Go(func() {
		for {
			if _, err := io.WriteString(conn, word+"\r\n"); err != nil {
				return // the server has gone
			}
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	<-working
	left := make(chan error)
	go func() { left <- srv.Shutdown(context.Background()) }()
	require.Eventually(t, srv.draining.Load, 10*time.Second, time.Millisecond)
	close(resume)
	got, err := io.ReadAll(conn)
	require.NoError(t, err)
	one := string(AppendBulkString(AppendArray(nil, 1), word))
	require.NotEmpty(t, got)
	require.Equal(t, strings.Repeat(one, len(got)/len(one)), string(got), "complete replies, then the end")
	require.EqualValues(t, srv.Stats().Commands.Load(), len(got)/len(one))
	close(stop)
	sender.Wait()
	require.NoError(t, conn.Close())
	require.NoError(t, <-left)
}

func TestDrainClosesSilentClients(t *testing.T) {
	closed, over := ended()
	srv, addr := start(t, Config{Timeout: time.Hour}, handlerFuncs{open: trust, serve: likeRedis, close: closed})
	silent, half := dial(t, addr), dial(t, addr)
	send(t, half, "PING\r\n*1\r\n$4\r\nPI")
	expect(t, half, "+PONG\r\n")
	require.Eventually(t, func() bool { return srv.Stats().Current.Load() == 2 }, 10*time.Second, time.Millisecond)
	go func() {
		expectEnd(t, half, "")
		_ = half.Close()
	}()
	require.NoError(t, srv.Shutdown(context.Background()))
	expectEnd(t, silent, "")
	require.Len(t, over, 2)
	require.NoError(t, srv.Shutdown(context.Background()), "a second shutdown has nothing to do")
}

// A client that does not read its replies delays a drain until the drain's context ends.
func TestDrainCutsOffSlowReadersAtItsEnd(t *testing.T) {
	big := strings.Repeat("x", 64<<20)
	working := make(chan struct{})
	srv, addr := start(t, Config{}, handlerFuncs{open: trust, serve: func(s *Session, _ []Command) {
		s.Out = AppendBulkString(s.Out, big)
		close(working)
	}})
	conn := dial(t, addr)
	send(t, conn, "GET x\r\n")
	<-working
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, srv.Shutdown(ctx), context.DeadlineExceeded)
	require.Zero(t, srv.Stats().Current.Load())
}

// A drain answers what a slowed client has sent, without further delays.
func TestDrainDoesNotWaitForDelays(t *testing.T) {
	slowing := make(chan struct{}, 20)
	srv, addr := start(t, Config{}, handlerFuncs{serve: func(s *Session, pipeline []Command) {
		slowing <- struct{}{}
		s.Delay(500 * time.Millisecond)
		likeRedis(s, pipeline)
	}})
	conn := dial(t, addr)
	send(t, conn, strings.Repeat("PING\r\n", 20))
	<-slowing
	began := time.Now()
	require.NoError(t, srv.Shutdown(context.Background()))
	require.Less(t, time.Since(began), 5*time.Second, "20 delays of 0.5 s")
	expectEnd(t, conn, strings.Repeat("-NOAUTH Authentication required.\r\n", 20))
}

func TestServeAfterShutdownClosesTheListener(t *testing.T) {
	srv := NewServer(Config{Logger: quiet}, handlerFuncs{})
	require.NoError(t, srv.Shutdown(context.Background()))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, srv.Serve(ln))
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
}

func TestKillClosesTheSessionThatSessionsShows(t *testing.T) {
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

// flaky fails its first calls of Accept, as in a process that is out of descriptors.
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

func TestServeContinuesAfterAcceptErrors(t *testing.T) {
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

func TestDrainClosesTLSSessions(t *testing.T) {
	srv, addr, trust := startTLS(t, Config{})
	conn, mute := tls.Client(dial(t, addr), trust), dial(t, addr)
	send(t, conn, "PING\r\n")
	expect(t, conn, "+PONG\r\n")
	require.Eventually(t, func() bool { return srv.Stats().Accepted.Load() == 2 }, 10*time.Second, time.Millisecond)
	go func() {
		expectEnd(t, conn, "")
		_ = conn.Close()
	}()
	require.NoError(t, srv.Shutdown(context.Background()))
	expectEnd(t, mute, "")
}

// failing is a listener whose first calls of Accept fail.
type failing struct {
	net.Listener
	failures atomic.Int32
}

func (f *failing) Accept() (net.Conn, error) {
	if f.failures.Add(-1) >= 0 {
		return nil, syscall.EMFILE
	}
	return f.Listener.Accept()
}

func TestConnectionsThatCannotBeAcceptedAreLoggedOnce(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	few := &failing{Listener: ln}
	few.failures.Store(4)
	var log bytes.Buffer
	srv := NewServer(Config{Logger: slog.New(slog.NewTextHandler(&log, nil))}, handlerFuncs{open: trust, serve: echoArgs})
	served := make(chan error)
	go func() { served <- srv.Serve(few) }() // until Shutdown
	conn := dial(t, ln.Addr().String())
	send(t, conn, "PING\r\n")
	expect(t, conn, "*1\r\n$4\r\nPING\r\n")
	require.NoError(t, srv.Shutdown(t.Context()))
	require.NoError(t, <-served)
	require.Equal(t, 1, strings.Count(log.String(), "cannot accept connections"), log.String())
}

func TestClosedClientsAreLoggedAsEpisodes(t *testing.T) {
	for why, c := range map[error]struct {
		count        func(*Stats) *atomic.Int64
		began, ended string
	}{
		errHTTP:        {func(s *Stats) *atomic.Int64 { return &s.HTTP }, "that sent HTTP (POST or Host:), possibly an attack through a browser", "that send HTTP"},
		errQueryBuffer: {func(s *Stats) *atomic.Int64 { return &s.QueryLimit }, "at the query buffer limit", "at the query buffer limit"},
		errOutput:      {func(s *Stats) *atomic.Int64 { return &s.OutputLimit }, "at the output buffer limit", "at the output buffer limit"},
		errMemory:      {func(s *Stats) *atomic.Int64 { return &s.MemoryLimit }, "at the memory limit of all clients", "at the memory limit of all clients"},
		errSlow:        {func(s *Stats) *atomic.Int64 { return &s.SlowReaders }, "that does not read its replies", "that do not read their replies"},
	} {
		w := logged.New()
		s := NewServer(Config{Logger: w.Logger()}, nil)
		s.now = w.Now
		w.RequireEpisodes(t, logged.Lines{
			Began: `"closed a client ` + c.began + `"`, Ended: `"no longer closing clients ` + c.ended + `"`, Calm: episodes.Every,
			Detail: " client=7 addr=1.2.3.4:5", Count: "times",
		}, func() {
			(&Session{srv: s, ID: 7, Remote: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}}).account(fmt.Errorf("reading: %w", why))
		}, s.connected)
		require.EqualValues(t, 4, c.count(&s.stats).Load())
	}
}

func TestRefusalsAtMaxClientsAreEpisodes(t *testing.T) {
	w := logged.New()
	s := NewServer(Config{Logger: w.Logger(), MaxClients: 1}, nil)
	s.now = w.Now
	s.sessions[1] = &Session{}
	w.RequireEpisodes(t, logged.Lines{
		Began: `"refused a client because maxclients are connected" maxclients=1`,
		Ended: `"no longer refusing clients at maxclients" maxclients=1`, Calm: episodes.Every, Detail: " addr=pipe", Count: "times",
	}, func() {
		ours, _ := net.Pipe()
		s.admit(ours)
	}, s.connected)
	require.EqualValues(t, 4, s.stats.RejectedMax.Load())
}

func TestRefusalsByProtectedModeAreEpisodes(t *testing.T) {
	w := logged.New()
	s := NewServer(Config{Logger: w.Logger(), ProtectedMode: true}, nil)
	s.now = w.Now
	w.RequireEpisodes(t, logged.Lines{
		Began: `"refused a client on another machine: protected-mode is on and no password is set"`,
		Ended: `"no longer refusing clients on other machines"`, Calm: episodes.Every, Detail: " addr=192.0.2.1:7", Count: "times",
	}, func() {
		ours, theirs := net.Pipe()
		require.NoError(t, theirs.Close())
		s.admit(strangerConn{ours})
	}, s.connected)
	require.EqualValues(t, 4, s.stats.RejectedMode.Load())
}

func TestConnectionsThatAreNotAcceptedAreEpisodes(t *testing.T) {
	w := logged.New()
	refused := episodes.New(w.Logger(), w.Now, notAccepted)
	w.RequireEpisodes(t, logged.Lines{
		Began: `"cannot accept connections"`, Ended: `"connections are accepted again"`, Calm: 10 * time.Second, Count: "times",
	}, func() { refused.Note("times", 1, func() []any { return nil }) }, func() { refused.End() })
}
