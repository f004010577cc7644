package resp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/internal/episodes"
)

// Server accepts connections and runs a session for each.
type Server struct {
	cfg     Config
	handler Handler
	starter Starter // handler, if it is one
	log     *slog.Logger
	stats   Stats
	lastID  atomic.Int64
	now     func() time.Time  // time.Now, except in tests
	closed  []closing         // never modified
	crowded *episodes.Episode // while clients are refused at MaxClients
	strange *episodes.Episode // while clients are refused by the protected mode

	resumes resumes // of suspended sessions

	protected atomic.Bool // the protected mode in effect
	draining  atomic.Bool
	ending    context.Context // ends when Shutdown stops waiting for sessions
	cutAll    context.CancelFunc

	mu        sync.Mutex                // never held during I/O
	listeners map[net.Listener]struct{} // guarded by mu
	sessions  map[int64]*Session        // by ID; guarded by mu
	loops     []*eventLoop              // that sessions may leave their goroutines for; never modified
	running   sync.WaitGroup            // counts sessions; none is added once draining is set
}

// NewServer returns a server that accepts no connections before Serve is called.
func NewServer(cfg Config, handler Handler) *Server {
	s := &Server{
		cfg:       cfg.withDefaults(),
		handler:   handler,
		listeners: map[net.Listener]struct{}{},
		sessions:  map[int64]*Session{},
	}
	s.log, s.now = s.cfg.Logger, time.Now
	s.closed = s.closings()
	s.crowded = episodes.New(s.log, s.clock, crowded, "maxclients", s.cfg.MaxClients)
	s.strange = episodes.New(s.log, s.clock, strange)
	s.protected.Store(cfg.ProtectedMode)
	s.resumes.cond = sync.NewCond(&s.resumes.mu)
	s.ending, s.cutAll = context.WithCancel(context.Background())
	if starter, ok := handler.(Starter); ok {
		s.starter, s.loops = starter, newEventLoops(s)
	}
	return s
}

// Stats returns the server's counters.
func (s *Server) Stats() *Stats { return &s.stats }

// SetProtectedMode changes Config.ProtectedMode for the connections that follow.
func (s *Server) SetProtectedMode(on bool) { s.protected.Store(on) }

func (s *Server) clock() time.Time { return s.now() }

var notAccepted = episodes.Trouble{
	Began: "cannot accept connections", Ended: "connections are accepted again", Calm: 10 * time.Second,
}

// Serve accepts connections from ln until Shutdown, then returns nil. It may be called for several listeners at once:
// TCP, Unix sockets, and those of tls.NewListener. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	s.mu.Lock()
	late := s.draining.Load()
	s.listeners[ln] = struct{}{}
	s.mu.Unlock()
	defer func() {
		_ = ln.Close() // Shutdown may have closed it already
		s.mu.Lock()
		delete(s.listeners, ln)
		s.mu.Unlock()
	}()
	if late {
		return nil
	}
	refused := episodes.New(s.log, s.clock, notAccepted, "listener", ln.Addr().String())
	for pause := time.Duration(0); ; {
		conn, err := ln.Accept()
		switch {
		case s.draining.Load():
			if err == nil {
				_ = conn.Close() // accepted after the drain began
			}
			return nil
		case err == nil:
			pause = 0
			refused.End()
			s.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return fmt.Errorf("resp: accepting on %s: %w", ln.Addr(), err)
		default:
			// Most likely too many open files, which passes when clients leave.
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			refused.Note("times", 1, func() []any { return []any{"error", err} })
			s.wait(pause)
		}
	}
}

// wait pauses its goroutine for d, which is a second at most, or until Shutdown stops waiting for sessions.
func (s *Server) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.ending.Done():
	}
}

// Shutdown drains the server: it stops accepting, waits until every session has answered the commands that have arrived
// completely, and closes the sessions. If ctx ends first, it cuts off the remaining sessions and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.draining.Store(true)
	for ln := range s.listeners {
		_ = ln.Close() // an error leaves nothing to do
	}
	all := s.snapshot()
	s.mu.Unlock()
	for _, c := range all {
		// Wakes the session, which then sets its own deadline. It fails if the connection is
		// closed, and then there is nothing to wake.
		_ = c.conn.SetReadDeadline(time.Unix(1, 0))
		c.rouse()
	}
	s.resumes.notify()
	left := make(chan struct{})
	go func() { // ends when the last session does
		s.running.Wait()
		close(left)
	}()
	select {
	case <-left:
		s.cutAll()
		s.closeLoops()
		return nil
	case <-ctx.Done():
	}
	s.cutAll()
	s.Sessions((*Session).cut)
	// A session whose handler is running ends when the handler returns.
	select {
	case <-left:
		s.closeLoops()
		return ctx.Err()
	case <-time.After(time.Second):
		for _, l := range s.loops {
			l.close() // and do not wait: its handler may be running, too
		}
		return fmt.Errorf("%d clients were still waiting: %w", s.stats.Current.Load(), ctx.Err())
	}
}

// closeLoops ends the event loops, which have no sessions any more, and waits until they have ended.
func (s *Server) closeLoops() {
	for _, l := range s.loops {
		l.close()
		l.running.Wait()
	}
}

// Sessions calls f for every session, oldest first, on the caller's goroutine. Sessions may end while it runs.
func (s *Server) Sessions(f func(*Session)) {
	s.mu.Lock()
	all := s.snapshot()
	s.mu.Unlock()
	for _, c := range all {
		f(c)
	}
}

// Kill closes the session with this ID at once and reports whether it existed. To end
// its own session, a handler calls CloseAfterReply.
func (s *Server) Kill(id int64) bool {
	s.mu.Lock()
	c := s.sessions[id]
	s.mu.Unlock()
	if c == nil {
		return false
	}
	c.killed.Store(true)
	c.cut()
	return true
}

// snapshot returns the sessions, oldest first. The caller holds mu.
func (s *Server) snapshot() []*Session {
	all := make([]*Session, 0, len(s.sessions))
	for _, c := range s.sessions {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Session) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

func (s *Server) forget(c *Session) {
	s.mu.Lock()
	delete(s.sessions, c.ID)
	s.mu.Unlock()
	s.stats.Current.Add(-1)
	s.running.Done()
}
