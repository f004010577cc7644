package resp

import (
	"sync/atomic"

	"github.com/rlproxy/rlproxy/internal/sockio"
)

// Budget counts the bytes that all clients together make the process hold, and bounds them. The server counts what it
// reads and writes. A handler has the rest counted by Session.Reserve or, where there is no session, by Reserve.
type Budget struct {
	limit    int64
	reserved atomic.Int64 // bytes
}

// NewBudget returns a Budget of at most limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Reserve reserves delta bytes, or releases them if delta is negative. It reports whether they were available.
func (m *Budget) Reserve(delta int64) bool {
	if m.reserved.Add(delta) <= m.limit || delta < 0 {
		return true
	}
	m.reserved.Add(-delta)
	return false
}

// Reserved returns how many bytes are reserved.
func (m *Budget) Reserved() int64 { return m.reserved.Load() }

// Limit returns the most bytes that can be reserved.
func (m *Budget) Limit() int64 { return m.limit }

// reserve is Memory.Reserve for a session.
func (s *Session) reserve(delta int) bool {
	if !s.srv.cfg.Memory.Reserve(int64(delta)) {
		return false
	}
	s.reserved.Add(int64(delta))
	return true
}

// Holdings are the bytes that are held for a client, in this process and in the system's buffers of its socket.
type Holdings struct {
	Unread int64 // of commands that have arrived, and are not in a slice yet
	Free   int64 // that the buffer has left, in which an incomplete command waits
	Unsent int64 // of replies that the client has not taken
	Total  int64 // all of these, and what else is reserved for the client
}

// Holdings returns what is held for the client. It may be called from any goroutine, once the handler's Open was
// called, and returns nothing for a Session that was not made by a Server. What has arrived and is not in a slice yet
// is as it was when the session last waited.
func (s *Session) Holdings() Holdings {
	if s.srv == nil {
		return Holdings{}
	}
	received, written := sockio.Queued(s.raw)
	unread, size := s.in.unread.Load(), s.in.size.Load()
	unsent := s.unsent.Load() + sockio.Left(s.writer)
	return Holdings{
		Unread: received + unread, Free: max(size-unread, 0), Unsent: written + unsent,
		// What buffers have beyond baseBuffer is reserved.
		Total: received + written + s.reserved.Load() + min(size, baseBuffer) + min(unsent, baseBuffer),
	}
}

// Reserve reserves delta bytes for what the handler keeps for the client, or releases them if delta is negative. It
// reports whether they were available. What is left is released when the session ends. Any number is available to a
// Session that was not made by a Server.
func (s *Session) Reserve(delta int) bool {
	if s.srv != nil && !s.reserve(delta) {
		return false
	}
	s.kept += delta
	return true
}
