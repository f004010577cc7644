package resp

import (
	"errors"
	"os"
	"time"
)

// writeChunk is how many bytes a client must read within WriteTimeout. A long reply over
// a slow connection may take longer as a whole.
const writeChunk = 256 << 10

// Flush writes Out before the pipeline is done. A handler with large replies calls it
// between them, so that they are not all in memory at once. If the write fails, Closing
// returns true afterwards. Flush does nothing on a Session that was not made by a Server.
func (s *Session) Flush() {
	if s.srv == nil || s.failed != nil {
		return
	}
	if s.failed = s.flush(); s.failed != nil {
		s.closing = true
	}
}

// flush writes Out.
func (s *Session) flush() error {
	if len(s.Out) == 0 {
		return nil
	}
	if len(s.Out) > s.srv.cfg.OutputBufferLimit {
		return errOutput
	}
	if extra := len(s.Out) - keepBuffer; extra > 0 {
		if !s.srv.hold(extra) {
			return errMemory
		}
		defer s.srv.hold(-extra)
	}
	for b := s.Out; len(b) > 0; {
		if err := s.extend(); err != nil {
			return err
		}
		n, err := s.conn.Write(b[:min(len(b), writeChunk)])
		s.srv.stats.BytesOut.Add(int64(n))
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errSlow
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	if s.Out = s.Out[:0]; cap(s.Out) > keepBuffer {
		s.Out = nil
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
