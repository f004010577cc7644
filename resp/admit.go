package resp

import (
	"crypto/tls"
	"net"
	"time"
)

// admit starts a session for a new connection, or tells it why not. It runs in the
// accept loop and does not wait for the client.
func (s *Server) admit(conn net.Conn) {
	if tcp, ok := bare(conn).(*net.TCPConn); ok {
		// An error means that the client is gone, which its session will notice.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: s.cfg.TCPKeepAlive > 0, Idle: s.cfg.TCPKeepAlive, Interval: s.cfg.TCPKeepAlive / 3, Count: 3,
		})
	}
	if s.protected.Load() && !isLocal(conn.RemoteAddr()) {
		s.stats.RejectedMode.Add(1)
		refuse(conn, msgProtected)
		return
	}
	now := time.Now()
	_, secure := conn.(*tls.Conn)
	c := &Session{
		ID: s.lastID.Add(1), Created: now,
		Remote: conn.RemoteAddr(), Local: conn.LocalAddr(), TLS: secure,
		Proto: 2, srv: s, conn: conn,
	}
	c.active.Store(now.UnixNano())
	s.mu.Lock()
	full, late := len(s.sessions) >= s.cfg.MaxClients, s.draining.Load()
	if !full && !late {
		s.sessions[c.ID] = c
		s.running.Add(1)
	}
	s.mu.Unlock()
	switch {
	case late:
		_ = conn.Close() // the server is leaving
	case full:
		s.stats.RejectedMax.Add(1)
		refuse(conn, msgMaxClients)
	default:
		s.stats.Accepted.Add(1)
		s.stats.Current.Add(1)
		go c.run() // ends with its connection; Shutdown waits for it
	}
}

// refuse tells a new connection why it is closed. Its send buffer is empty, so the
// write does not wait. Under TLS nothing can be said before a handshake.
func refuse(conn net.Conn, msg string) {
	if _, secure := conn.(*tls.Conn); !secure {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(AppendError(nil, msg)) // the client may be gone already
	}
	_ = bare(conn).Close()
}

// isLocal tells whether a peer is on this machine: a Unix socket, or loopback.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// warnHTTP logs, at most once a minute, that somebody made a browser or a web
// server send its requests here, which can be an attack.
func (s *Server) warnHTTP(c *Session) {
	now := time.Now().Unix()
	last := s.warned.Load()
	if now-last < 60 || !s.warned.CompareAndSwap(last, now) {
		return
	}
	s.log.Warn("a client sent HTTP (POST or Host:), maybe an attack through a browser; its connection was closed", who(c)...)
}
