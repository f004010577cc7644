package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"runtime/debug"
	"time"

	"github.com/rlproxy/rlproxy/internal/sockio"
)

const (
	// A session that notices the drain continues to read what its client has sent by
	// then, until nothing arrives for drainQuiet, and for drainRead at most.
	drainQuiet = 10 * time.Millisecond
	drainRead  = 100 * time.Millisecond
	// lingerTime bounds how long a session that has replied waits for its client to close first. Closing with bytes
	// unread would reset the connection and destroy replies in transit.
	lingerTime = time.Second
	// joinOut is how many bytes of replies are joined into one write while the session
	// is not trusted and its slices are single commands.
	joinOut = 16 << 10
)

// run serves the session in a goroutine of its own, until it ends or parks.
func (s *Session) run() {
	over := true // also after a panic
	defer func() {
		if over {
			s.leave()
		}
	}()
	defer s.recovered()
	if !s.opened && !s.open() {
		return
	}
	linger, err := s.loop()
	if over = !errors.Is(err, errParked); !over {
		return // another goroutine may serve it by now
	}
	s.account(err)
	if linger {
		s.in.release() // others can use it while this session lingers
		s.linger()
	}
}

// recovered is deferred by what calls the handler: a panic is logged and counted.
func (s *Session) recovered() {
	if p := recover(); p != nil {
		s.srv.panicked(p, "panic while serving a client; its connection is closed", "client", s.ID)
	}
}

// panicked counts and logs a panic, with the stack of its goroutine.
func (s *Server) panicked(p any, text string, attrs ...any) {
	s.stats.Panics.Add(1)
	s.log.Error(text, append(attrs, "panic", p, "stack", string(debug.Stack()))...)
}

// open begins the session. It reports success.
func (s *Session) open() bool {
	if !s.handshake() {
		s.srv.stats.HandshakeFails.Add(1)
		return false
	}
	s.raw = sockio.Raw(bare(s.conn))
	s.in, s.writer = newReader(s.conn, &s.srv.cfg, s.reserve), sockio.NewWriter(s.conn)
	if n := int64(len(s.srv.loops)); n > 0 && s.raw != nil {
		s.events = s.srv.loops[s.ID%n]
	}
	s.srv.handler.Open(s)
	s.opened = true
	return true
}

func (s *Session) leave() {
	defer s.srv.forget(s)
	defer s.end()
	defer s.recovered()
	if s.opened {
		s.srv.handler.Close(s)
	}
}

// handshake completes the TLS handshake within HandshakeTimeout. It reports success, also for a connection without TLS.
func (s *Session) handshake() bool {
	conn, ok := s.conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(s.srv.ending, s.srv.cfg.HandshakeTimeout)
	defer cancel()
	return conn.HandshakeContext(ctx) == nil
}

// loop reads, serves and writes until either side ends the session, or it parks. It returns
// the reason, and whether to linger because the client may still be sending.
func (s *Session) loop() (linger bool, err error) {
	for {
		if s.suspended {
			if err := s.awaitResume(); err != nil {
				return false, err
			}
		}
		if over, linger, err := s.answer(); over {
			return linger, err
		}
		if s.suspended {
			continue
		}
		if s.park() {
			return false, errParked
		}
		if linger, err = s.read(); err != nil {
			return linger, err
		}
	}
}

// answer serves what has been read, and writes the replies. It reports whether that has ended the session.
func (s *Session) answer() (over, linger bool, err error) {
	for {
		pipeline, err := s.in.slice(s.Trusted)
		if len(pipeline) > 0 {
			s.serve(pipeline)
		}
		if s.failed != nil {
			return true, false, s.failed
		}
		if s.suspended {
			return false, false, nil
		}
		if refused, ok := errors.AsType[protocolError](err); ok && !s.closing {
			s.Out = AppendError(s.Out, string(refused))
		}
		done := s.closing || err != nil
		if len(pipeline) == 0 || done || s.Trusted || len(s.Out) >= joinOut {
			if err := s.flush(); err != nil {
				return true, false, err
			}
		}
		if done {
			return true, true, err
		}
		if len(pipeline) == 0 {
			return false, false, nil
		}
	}
}

// serve passes one slice to the handler.
func (s *Session) serve(pipeline []Command) {
	s.begin(pipeline)
	s.srv.handler.Serve(s, pipeline)
	s.light = s.events != nil && s.in.raw != nil && s.canStart(pipeline)
}

// begin prepares Out for the replies to a slice, and counts the slice.
func (s *Session) begin(pipeline []Command) {
	s.prepare()
	turn := s.srv.stats.Pipelines.Add(1)
	s.srv.stats.Commands.Add(int64(len(pipeline)))
	if s.quiet++; turn-s.turn > quietPipelines {
		s.quiet = 0
	}
	s.turn = turn
}

// prepare makes room for replies.
func (s *Session) prepare() {
	if s.Out == nil {
		s.Out = s.in.ws.out[:0]
	}
}

// read waits for bytes. It returns errDrained if the server is draining and the client's commands are answered.
func (s *Session) read() (linger bool, err error) {
	s.rest()
	for {
		if err := s.arm(); err != nil {
			return false, err
		}
		n, err := s.in.fill()
		if n > 0 {
			s.countRead(n)
			return false, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && s.srv.draining.Load() {
			if time.Now().Before(s.quietBy) || s.leaveBy.IsZero() {
				continue // Shutdown ended the wait: read once more, for drainQuiet
			}
			spoke := s.LastActive()
			return spoke.After(s.Created) && time.Since(spoke) < lingerTime, errDrained
		}
		if err != nil {
			return false, err
		}
	}
}

// countRead counts n bytes that have been read.
func (s *Session) countRead(n int) {
	s.active.Store(time.Now().UnixNano())
	s.srv.stats.BytesIn.Add(int64(n))
}

// arm sets the deadline of the next read. It checks for a drain after setting the
// deadline, and Shutdown sets a deadline after starting the drain, so no drain is missed.
func (s *Session) arm() error {
	if d := s.srv.cfg.Timeout; d > 0 && s.leaveBy.IsZero() {
		by := time.Now().Add(d)
		if s.expired {
			by = time.Unix(1, 0)
		}
		if err := s.conn.SetReadDeadline(by); err != nil {
			return err
		}
	}
	if !s.srv.draining.Load() {
		return nil
	}
	now := time.Now()
	if s.leaveBy.IsZero() {
		s.leaveBy = now.Add(drainRead)
	}
	if s.quietBy = now.Add(drainQuiet); s.quietBy.After(s.leaveBy) {
		s.quietBy = s.leaveBy
	}
	return s.conn.SetReadDeadline(s.quietBy)
}

// rest returns the memory of Out to the workspace before a wait.
func (s *Session) rest() {
	if s.Out != nil && s.in.ws != nil {
		s.in.ws.out = s.Out[:0]
	}
	s.Out = nil
}

// linger closes the sending side and waits up to lingerTime for the client to close its own.
func (s *Session) linger() {
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if s.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, s.conn) // the connection is closed next in any case
}

// end closes the connection and releases its memory.
func (s *Session) end() {
	s.cut()
	if s.in != nil {
		s.in.release()
	}
	s.Reserve(-s.kept)
}

// cut closes the connection at once, from any goroutine. It sends no TLS close_notify, which could block.
func (s *Session) cut() {
	_ = bare(s.conn).Close() // fails if the connection is closed already
	s.rouse()
	s.srv.resumes.notify()
}

// bare returns the connection beneath TLS, or conn itself.
func bare(conn net.Conn) net.Conn {
	if c, ok := conn.(*tls.Conn); ok {
		return c.NetConn()
	}
	return conn
}
