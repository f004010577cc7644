// Package resp is the wire: it accepts connections, reads pipelines of commands
// within stated bounds, hands each pipeline to a Handler and writes the replies in
// one write. It knows RESP2 and RESP3 and nothing of rate limits.
//
// The way of a byte: server.go accepts a connection and starts its session;
// serve.go is the session's loop; reader.go reads; frame.go finds where each
// command ends and refuses what is none, so that redcon, which parses and encodes,
// sees only whole and bounded commands; write.go writes.
package resp

import (
	"net"
	"sync/atomic"
	"time"
)

// Handler answers what clients send. Its methods are called from the session's
// own goroutine, for one session never two at a time. A panic in one of them costs
// the session's connection and nothing else.
type Handler interface {
	// Open is called once, before the first Serve. It writes nothing.
	Open(s *Session)
	// Serve answers a pipeline: it appends one reply per command to s.Out, in
	// order. The arguments hold until Serve returns. A long pipeline comes in
	// slices of at most 1024 commands.
	Serve(s *Session, pipeline []Command)
	// Close is called once, after the last Serve.
	Close(s *Session)
}

// Command is one command as it came: the name and its arguments, at least one.
type Command = [][]byte

// Session is one client's connection, as the handler sees it.
//
// The first group of fields never changes. The others belong to the session's
// goroutine: only the Handler's methods may touch them.
type Session struct {
	ID      int64     // 1 for the first connection, never used twice
	Created time.Time // when it was accepted
	Remote  net.Addr
	Local   net.Addr
	TLS     bool

	Proto int    // 2 or 3: the version of the replies; the handler switches it
	Out   []byte // replies not yet written; the handler appends
	Data  any    // the handler's own

	// Trusted lifts the small bounds that hold before authentication: 10 arguments
	// of 16 KiB, and one command per Serve. The handler sets it when a client may
	// send whole commands.
	Trusted bool

	closing bool
	failed  error // of Flush

	srv    *Server
	conn   net.Conn // as accepted; under TLS the client's bytes come through it
	in     *reader
	active atomic.Int64 // Unix ns of the last bytes read
	killed atomic.Bool  // by Kill

	writeBy time.Time // the write deadline that is set
	leaveBy time.Time // when reading ends; zero before the session knows of a drain
	quietBy time.Time // when it ends if nothing arrives
}

// CloseAfterReply makes the server close the connection once Out is written.
// What the client sent after the command at hand is not answered.
func (s *Session) CloseAfterReply() { s.closing = true }

// Closing tells whether CloseAfterReply was called.
func (s *Session) Closing() bool { return s.closing }

// LastActive returns when the client's last bytes were read. It may be called from
// any goroutine.
func (s *Session) LastActive() time.Time { return time.Unix(0, s.active.Load()) }
