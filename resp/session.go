// Package resp is the wire: it accepts connections, reads pipelines of commands within configured bounds, passes each
// pipeline to a Handler and writes the replies in one write. It implements RESP2 and RESP3 and knows nothing about rate
// limits.
//
// The path of a byte: server.go accepts a connection, and admit.go starts its session or refuses it; serve.go is the
// session's loop; reader.go reads; frame.go finds where each command ends, refuses what is not a command, and splits
// the others into words; the Handler appends replies by reply.go, which encodes them with redcon; write.go writes them.
// eventloop.go serves sessions that have no goroutine of their own, and suspend.go is about those that wait.
//
// Reading order: session.go (this file), config.go, the files above, memory.go (what clients may hold), errors.go,
// closed.go, stats.go.
package resp

import (
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// Handler answers commands. Its methods are never called two at a time for one session. A panic in
// one of them closes the session's connection and has no other effect.
type Handler interface {
	// Open is called once, before the first Serve. It writes nothing.
	Open(s *Session)
	// Serve answers a pipeline: it appends one reply per command to s.Out, in order. The commands are valid until Serve
	// returns. A long pipeline is passed in slices of at most 1024 commands.
	Serve(s *Session, pipeline []Command)
	// Close is called once, after the last Serve.
	Close(s *Session)
}

// Starter is a Handler that can answer without keeping a goroutine waiting. Its methods are
// called on various goroutines, but never two at a time for one session. None of them blocks.
type Starter interface {
	Handler
	// CanStart reports whether Start can answer a pipeline. It changes nothing.
	CanStart(s *Session, pipeline []Command) bool
	// Start begins to answer a pipeline and arranges for Session.Finish to be called when the
	// results are available: on any goroutine, possibly before Start returns.
	Start(s *Session, pipeline []Command)
	// Finish appends the replies to the commands that Start has begun to answer. The commands
	// are valid until it returns.
	Finish(s *Session)
	// Flush is called after one or more calls of Start: what they began need not wait for more.
	Flush()
	// Resume appends the reply that a suspended session waits for, after a call of Session.Resume, or earlier if the
	// server shuts down.
	Resume(s *Session)
}

// Command is one command: its name, followed by its arguments. It has at least one word.
type Command = [][]byte

// Session is one client's connection, as the handler sees it.
//
// The first group of fields never changes. The other exported fields may be used only in the
// Handler's and the Starter's methods.
type Session struct {
	ID      int64     // 1 for the first connection; never reused
	Created time.Time // when the connection was accepted
	Remote  net.Addr  // of the client; on a Unix socket the same as Local
	Local   net.Addr
	TLS     bool

	Proto int    // RESP version of the replies, 2 or 3; set by the handler
	Out   []byte // replies that are not written yet; the handler appends to it
	Data  any    // the handler's own data

	// Trusted lifts the bounds before authentication: 10 arguments of 16 KiB, and one
	// command per Serve. The handler sets it once the client is authenticated.
	Trusted bool

	// Muted makes the server discard Out where it would write it. The handler sets it
	// while it runs a command that gets no reply, and clears it afterwards.
	Muted bool

	closing bool
	failed  error // the error of Flush
	kept    int   // bytes reserved by Reserve

	reserved atomic.Int64 // bytes for this session in Config.Memory
	unsent   atomic.Int64 // bytes of replies that wait for those in the write under way

	srv    *Server
	conn   net.Conn // the connection as accepted, a *tls.Conn under TLS
	in     *reader
	writer io.Writer    // to conn
	opened bool         // the handler's Open was called
	active atomic.Int64 // when bytes were last read, in Unix ns
	killed atomic.Bool  // Kill was called

	suspended bool        // Suspend was called, and the handler has not resumed the session yet
	resumed   atomic.Bool // Resume was called

	raw     syscall.RawConn // access to the descriptor, under TLS too; nil: there is none
	events  *eventLoop      // serves the session while it has no goroutine; nil: none can
	stage   atomic.Int32    // what serves the session, see eventloop.go
	light   bool            // Start could have answered the last pipeline
	turn    int64           // the server's count of pipelines when it last served this session
	quiet   int             // consecutive turns with few pipelines of other sessions in between, see quietTurns
	expired bool            // the client was silent for Timeout while the session had no goroutine

	parkedAt atomic.Int64 // when the session last parked, in ns of its event loop's clock

	writeBy time.Time // the write deadline of conn
	leaveBy time.Time // when reading ends during a drain; zero until the session learns of it
	quietBy time.Time // when reading ends during a drain if nothing arrives
}

// CloseAfterReply makes the server close the connection once Out is written. Commands
// after the current one are not answered.
func (s *Session) CloseAfterReply() { s.closing = true }

// Closing reports whether CloseAfterReply was called or Flush has failed.
func (s *Session) Closing() bool { return s.closing }

// Delay pauses the session, for a handler that slows its client down. d is a second at most. Delay returns at once
// during a drain, and on a Session that was not made by a Server.
func (s *Session) Delay(d time.Duration) {
	if s.srv != nil && !s.srv.draining.Load() {
		s.srv.wait(d)
	}
}

// LastActive returns when bytes of the client were last read. It may be called from any goroutine.
func (s *Session) LastActive() time.Time { return time.Unix(0, s.active.Load()) }
