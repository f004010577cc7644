package resp

import "sync/atomic"

// Memory counts the bytes that all clients together make the process hold, and bounds
// them. The server counts what it reads and writes. A handler has the rest counted by
// Session.Hold or, where there is no session, by Hold.
type Memory struct {
	limit int64
	held  atomic.Int64 // bytes
}

// NewMemory returns a Memory of at most limit bytes.
func NewMemory(limit int64) *Memory { return &Memory{limit: limit} }

// Hold reserves delta bytes, or releases them if delta is negative. It reports whether
// they were available.
func (m *Memory) Hold(delta int64) bool {
	if m.held.Add(delta) <= m.limit || delta < 0 {
		return true
	}
	m.held.Add(-delta)
	return false
}

// Held returns how many bytes are reserved.
func (m *Memory) Held() int64 { return m.held.Load() }

// Limit returns the most bytes that can be reserved.
func (m *Memory) Limit() int64 { return m.limit }

// hold is Memory.Hold for a session.
func (s *Server) hold(delta int) bool { return s.cfg.Memory.Hold(int64(delta)) }

// Hold reserves delta bytes for what the handler keeps for the client, or releases them
// if delta is negative. It reports whether they were available. What is left is
// released when the session ends. Any number is available to a Session that was not
// made by a Server.
func (s *Session) Hold(delta int) bool {
	if s.srv != nil && !s.srv.hold(delta) {
		return false
	}
	s.kept += delta
	return true
}
