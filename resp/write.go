package resp

import (
	"errors"
	"os"
	"time"
)

// writeChunk is how many bytes a client must read within WriteTimeout. A long reply over
// a slow connection may take longer as a whole.
const writeChunk = 256 << 10

// flushAt is the size of Out, in bytes, above which FlushIfLarge writes it.
const flushAt = 256 << 10

// FlushIfLarge writes Out if it is large. A handler calls it between the elements of a long
// reply and between replies, so that they are not all in memory at once.
func (s *Session) FlushIfLarge() {
	if len(s.Out) > flushAt {
		s.Flush()
	}
}

// Flush writes Out before the pipeline is done. If the write fails, Closing returns true afterwards, and Out is
// discarded. Flush does nothing on a Session that was not made by a Server.
func (s *Session) Flush() {
	switch {
	case s.srv == nil:
	case s.Muted || s.failed != nil:
		s.Out = s.Out[:0]
	default:
		s.fail(s.flush())
	}
}

// Pass writes b after Out without copying it. The caller has reserved the memory of b.
// If the write fails, Closing returns true afterwards.
func (s *Session) Pass(b []byte) {
	if s.srv == nil {
		s.Out = append(s.Out, b...)
		return
	}
	if s.Flush(); s.failed == nil && !s.Muted {
		s.fail(s.write(b))
	}
}

// fail ends the session if err is the error of a write.
func (s *Session) fail(err error) {
	if err != nil {
		s.failed, s.closing, s.Out = err, true, s.Out[:0]
	}
}

func (s *Session) flush() error {
	if len(s.Out) == 0 {
		return nil
	}
	if len(s.Out) > s.srv.cfg.OutputBufferLimit {
		return errOutput
	}
	if extra := cap(s.Out) - baseBuffer; extra > 0 {
		if !s.reserve(extra) {
			return errMemory
		}
		defer s.reserve(-extra)
	}
	if err := s.write(s.Out); err != nil {
		return err
	}
	if s.Out = s.Out[:0]; cap(s.Out) > keepBuffer {
		s.Out = nil
	}
	return nil
}

func (s *Session) write(b []byte) error {
	s.in.show()
	for len(b) > 0 {
		if err := s.extend(); err != nil {
			return err
		}
		rest := int64(max(len(b)-writeChunk, 0)) // behind what sockio.Left has
		if s.in.raw == nil {
			rest = int64(len(b)) // with TLS, it is not known when a write waits
		}
		if s.unsent.Load() != rest {
			s.unsent.Store(rest)
		}
		n, err := s.writer.Write(b[:min(len(b), writeChunk)])
		s.srv.stats.BytesOut.Add(int64(n))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errSlow
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if s.unsent.Load() > 0 {
		s.unsent.Store(0)
	}
	return nil
}

// extend renews the write deadline once half of WriteTimeout has passed. Setting it for
// each write would cost more than the rest of a small write.
func (s *Session) extend() error {
	now, timeout := time.Now(), s.srv.cfg.WriteTimeout
	if s.writeBy.Sub(now) >= timeout/2 {
		return nil
	}
	s.writeBy = now.Add(timeout)
	return s.conn.SetWriteDeadline(s.writeBy)
}
