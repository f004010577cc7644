// Package resp is the wire: it accepts connections, reads pipelines of commands
// within stated bounds, hands each pipeline to a Handler and writes the replies in
// one write. It knows RESP2 and RESP3 and nothing of rate limits.
package resp

import (
	"net"
	"time"
)

// Handler answers what clients send. Its methods are called from the session's
// own goroutine, for one session never two at a time.
type Handler interface {
	// Open is called once, before the first Serve.
	Open(s *Session)
	// Serve answers a pipeline: it appends one reply per command to s.Out, in
	// order. The arguments hold until Serve returns.
	Serve(s *Session, pipeline []Command)
	// Close is called once, after the last Serve.
	Close(s *Session)
}

// Command is one command as it came: the name and its arguments.
type Command = [][]byte

// Session is one client's connection, as the handler sees it.
type Session struct {
	ID      int64     // 1 for the first connection, never used twice
	Created time.Time // when it was accepted
	Remote  net.Addr
	Local   net.Addr
	TLS     bool

	Proto int    // 2 or 3: the version of the replies; the handler switches it
	Out   []byte // replies not yet written; the handler appends
	Data  any    // the handler's own

	// Trusted lifts the small bounds that hold before authentication. The handler
	// sets it when a client may send whole commands.
	Trusted bool

	closing bool
}

// CloseAfterReply makes the server close the connection once Out is written.
// What the client sent after the command at hand is not answered.
func (s *Session) CloseAfterReply() { s.closing = true }

// Closing tells whether CloseAfterReply was called.
func (s *Session) Closing() bool { return s.closing }
