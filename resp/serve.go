package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"runtime/debug"
	"time"
)

const (
	// A session that learns of the drain goes on reading what its client had sent by
	// then, until nothing arrives for lastCall, or for drainRead whatever arrives.
	lastCall  = 10 * time.Millisecond
	drainRead = 100 * time.Millisecond
	// lingerTime bounds how long a session that was answering waits for its client to
	// close first. Closing with bytes unread would reset the connection, and destroy
	// replies on their way.
	lingerTime = time.Second
	// joinOut is how many bytes of replies are gathered before trust, where slices
	// are single commands.
	joinOut = 16 << 10
)

// run is the session's life, in its own goroutine, which ends with it.
func (s *Session) run() {
	defer s.srv.forget(s)
	defer s.end()
	defer func() {
		if p := recover(); p != nil {
			s.srv.stats.Panics.Add(1)
			s.srv.log.Error("panic while serving a client; its connection is closed",
				"client", s.ID, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	if !s.handshake() {
		s.srv.stats.HandshakeFails.Add(1)
		return
	}
	s.in = newReader(s.conn, &s.srv.cfg, s.srv.hold)
	s.srv.handler.Open(s)
	defer s.srv.handler.Close(s)
	polite, err := s.loop()
	s.account(err)
	if polite {
		s.linger()
	}
}

// handshake completes a TLS handshake, in bounded time.
func (s *Session) handshake() bool {
	conn, ok := s.conn.(*tls.Conn)
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(s.srv.ending, s.srv.cfg.HandshakeTimeout)
	defer cancel()
	return conn.HandshakeContext(ctx) == nil
}

// loop reads, serves and writes until one of both sides ends it. It tells why, and
// whether the client may still be sending and is to be waited for.
func (s *Session) loop() (polite bool, err error) {
	for {
		if polite, err = s.read(); err != nil {
			return polite, err
		}
		for {
			pipeline, err := s.in.slice(s.Trusted)
			if len(pipeline) > 0 {
				s.serve(pipeline)
			}
			if s.failed != nil {
				return false, s.failed
			}
			if refused, ok := errors.AsType[protocolError](err); ok && !s.closing {
				s.Out = AppendError(s.Out, string(refused))
			}
			done := s.closing || err != nil
			if len(pipeline) == 0 || done || s.Trusted || len(s.Out) >= joinOut {
				if err := s.flush(); err != nil {
					return false, err
				}
			}
			if done {
				return true, err
			}
			if len(pipeline) == 0 {
				break
			}
		}
	}
}

// serve has the handler answer one slice.
func (s *Session) serve(pipeline []Command) {
	if s.Out == nil {
		s.Out = s.in.ws.out[:0]
	}
	s.srv.stats.Pipelines.Add(1)
	s.srv.stats.Commands.Add(int64(len(pipeline)))
	s.srv.handler.Serve(s, pipeline)
}

// read waits for bytes. It returns errDrained when the server drains and the
// client's commands are answered.
func (s *Session) read() (polite bool, err error) {
	s.park()
	for {
		if err := s.arm(); err != nil {
			return false, err
		}
		n, err := s.in.fill()
		if n > 0 {
			s.active.Store(time.Now().UnixNano())
			s.srv.stats.BytesIn.Add(int64(n))
			return false, nil
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && s.srv.draining.Load() {
			if time.Now().Before(s.quietBy) || s.leaveBy.IsZero() {
				continue // woken for the drain: the last call comes first
			}
			spoke := s.LastActive()
			return spoke.After(s.Created) && time.Since(spoke) < lingerTime, errDrained
		}
		if err != nil {
			return false, err
		}
	}
}

// arm sets the deadline of the next read. The drain is looked for after the
// deadline is set: Shutdown sets its own after saying so, hence one of both is seen.
func (s *Session) arm() error {
	if d := s.srv.cfg.Timeout; d > 0 && s.leaveBy.IsZero() {
		if err := s.conn.SetReadDeadline(time.Now().Add(d)); err != nil {
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
	if s.quietBy = now.Add(lastCall); s.quietBy.After(s.leaveBy) {
		s.quietBy = s.leaveBy
	}
	return s.conn.SetReadDeadline(s.quietBy)
}

// park gives the memory for replies back before a wait.
func (s *Session) park() {
	if s.Out != nil && s.in.ws != nil {
		s.in.ws.out = s.Out[:0]
	}
	s.Out = nil
}

// linger closes the sending side and waits a little for the client to close its own.
func (s *Session) linger() {
	half, ok := s.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	if s.conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	_, _ = io.Copy(io.Discard, s.conn) // whatever ends it, the connection is closed next
}

// end closes the connection and gives its memory back.
func (s *Session) end() {
	s.cut()
	if s.in != nil {
		s.in.release()
	}
}

// cut closes the connection at once, whoever is using it. TLS is not told: its
// farewell could block.
func (s *Session) cut() {
	_ = bare(s.conn).Close() // a second close of the same connection fails, as it should
}

// account counts and logs why a session ended.
func (s *Session) account(err error) {
	st, log := &s.srv.stats, s.srv.log
	_, refused := errors.AsType[protocolError](err)
	switch {
	case refused:
		st.ProtocolErrors.Add(1)
		log.Debug("protocol error from a client", "client", s.ID, "error", err)
	case errors.Is(err, errHTTP):
		st.HTTP.Add(1)
		s.srv.warnHTTP(s)
	case errors.Is(err, errQueryBuffer):
		st.QueryLimit.Add(1)
		log.Warn("closed a client at the query buffer limit", who(s)...)
	case errors.Is(err, errOutput):
		st.OutputLimit.Add(1)
		log.Warn("closed a client at the output buffer limit", who(s)...)
	case errors.Is(err, errMemory):
		st.MemoryLimit.Add(1)
		log.Warn("closed a client at the limit of all clients' memory", who(s)...)
	case errors.Is(err, errSlow):
		st.SlowReaders.Add(1)
		log.Warn("closed a client that does not read its replies", who(s)...)
	case s.killed.Load():
		st.Killed.Add(1)
	case errors.Is(err, os.ErrDeadlineExceeded):
		st.Idle.Add(1)
	}
}

// who names a session in the log.
func who(s *Session) []any {
	return []any{slog.Int64("client", s.ID), slog.String("addr", s.Remote.String())}
}

// bare returns the connection beneath TLS, or conn itself.
func bare(conn net.Conn) net.Conn {
	if c, ok := conn.(*tls.Conn); ok {
		return c.NetConn()
	}
	return conn
}
