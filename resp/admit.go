package resp

import (
	"crypto/tls"
	"net"
	"time"
)

// admit starts a session for a new connection, or refuses the connection with a
// reason. It runs in the accept loop and does not wait for the client.
func (s *Server) admit(conn net.Conn) {
	if tcp, ok := bare(conn).(*net.TCPConn); ok {
		// An error means that the client is gone, which its session will notice.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
			Enable: s.cfg.TCPKeepAlive > 0, Idle: s.cfg.TCPKeepAlive, Interval: s.cfg.TCPKeepAlive / 3, Count: 3,
		})
	}
	if s.protected.Load() && !isLocal(conn.RemoteAddr()) {
		s.stats.RejectedMode.Add(1)
		s.strange.Note("times", 1, func() []any { return []any{"addr", remote(conn).String()} })
		refuse(conn, msgProtected)
		return
	}
	now := time.Now()
	_, secure := conn.(*tls.Conn)
	c := &Session{
		ID: s.lastID.Add(1), Created: now,
		Remote: remote(conn), Local: conn.LocalAddr(), TLS: secure,
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
		_ = conn.Close() // the server is shutting down
	case full:
		s.stats.RejectedMax.Add(1)
		s.crowded.Note("times", 1, func() []any { return []any{"addr", remote(conn).String()} })
		refuse(conn, msgMaxClients)
	default:
		s.stats.Accepted.Add(1)
		s.connected()
		s.stats.Current.Add(1)
		go c.run() // ends with its connection; Shutdown waits for it
	}
}

// refuse sends msg on a new connection and closes it. The send buffer is empty, so the
// write does not block. Under TLS nothing can be sent before the handshake.
func refuse(conn net.Conn, msg string) {
	if _, secure := conn.(*tls.Conn); !secure {
		_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = conn.Write(AppendError(nil, msg)) // the client may be gone already
	}
	_ = bare(conn).Close()
}

// remote returns the address of a peer. A peer on a Unix socket has none and, as in Redis, gets that of the socket.
func remote(conn net.Conn) net.Addr {
	if local := conn.LocalAddr(); local.Network() == "unix" {
		return local
	}
	return conn.RemoteAddr()
}

// isLocal reports whether a peer is on this machine: on a Unix socket or on loopback.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}
