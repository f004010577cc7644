package resp

import "sync/atomic"

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
func (s *Server) reserve(delta int) bool { return s.cfg.Memory.Reserve(int64(delta)) }

// Reserve reserves delta bytes for what the handler keeps for the client, or releases them if delta is negative. It
// reports whether they were available. What is left is released when the session ends. Any number is available to a
// Session that was not made by a Server.
func (s *Session) Reserve(delta int) bool {
	if s.srv != nil && !s.srv.reserve(delta) {
		return false
	}
	s.kept += delta
	return true
}
