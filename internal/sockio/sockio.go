// Package sockio reads from and writes to sockets with less overhead than package net. On Linux it
// makes raw system calls, without notifying Go's scheduler. The calls never block, but the scheduler
// could not know that: if a call seemed to take long, as any may on a busy machine, the scheduler
// would hand the thread's other work to another thread, and then check for such calls every 20 us.
//
// Package net still waits for a socket, enforces its deadlines and closes it.
package sockio

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
)

// maxCall is the most bytes of one system call. It is limited because the garbage collector may have
// to wait until the call ends.
const maxCall = 256 << 10

// Raw returns access to the descriptor of conn, or nil if it cannot be used, for example with TLS.
func Raw(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// HungUp reports whether the peer of a connection has closed its side, or the connection is closed. Only on Linux is
// the former known before everything that the peer has sent is read. Any goroutine may call it.
func HungUp(raw syscall.RawConn) bool {
	gone := false
	err := raw.Control(func(fd uintptr) { gone = hungUp(fd) })
	return gone || err != nil
}

// SkipEmptyReads returns raw with another Read method: if nothing has arrived, it returns at once without calling its
// function. It is for callers that only check whether anything has arrived. Only one goroutine at a time may call Read.
func SkipEmptyReads(raw syscall.RawConn) syscall.RawConn {
	s := &skipping{RawConn: raw}
	s.look = func(fd uintptr) { s.empty = empty(fd) }
	return s
}

type skipping struct {
	syscall.RawConn
	look  func(fd uintptr) // sets empty; created once so that calls do not allocate
	empty bool             // nothing had arrived when look was last called
}

func (s *skipping) Read(f func(fd uintptr) bool) error {
	if err := s.Control(s.look); err != nil || s.empty {
		return err
	}
	return s.RawConn.Read(f)
}

// ReadNow reads what has arrived on a descriptor, without blocking. ready is false if nothing has. At
// the end of the stream it returns io.EOF.
func ReadNow(fd uintptr, p []byte) (n int, ready bool, err error) {
	for {
		n, err := read(fd, p[:min(len(p), maxCall)])
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EAGAIN):
			return 0, false, nil
		case err != nil:
			return 0, true, err
		case n == 0 && len(p) > 0:
			return 0, true, io.EOF
		}
		return n, true, nil
	}
}

// reader reads from a connection.
type reader struct {
	conn net.Conn
	raw  syscall.RawConn       // access to the descriptor of conn
	try  func(fd uintptr) bool // attempt as a func value, created once so that calls do not allocate
	poll Poll
	p    []byte // the buffer of attempt
	n    int    // bytes that attempt has read
	err  error  // the error of attempt
}

// NewReader returns a reader of conn, or conn itself if its descriptor cannot be used. Only one
// goroutine at a time may use it.
func NewReader(conn net.Conn) io.Reader {
	raw := Raw(conn)
	if raw == nil {
		return conn
	}
	r := &reader{conn: conn, raw: raw}
	r.try = r.attempt
	return r
}

// Read reads as net.Conn does.
func (r *reader) Read(p []byte) (int, error) {
	r.p, r.n, r.err = p, 0, nil
	err := r.raw.Read(r.try)
	r.p = nil
	if err == nil {
		err = r.err
	}
	return r.n, explain(r.conn, "read", err)
}

// attempt reports whether the read is over.
func (r *reader) attempt(fd uintptr) (over bool) {
	r.n, over, r.err = r.poll.Read(fd, r.p)
	return over
}

// writer writes to a connection.
type writer struct {
	conn net.Conn
	raw  syscall.RawConn       // access to the descriptor of conn
	try  func(fd uintptr) bool // attempt as a func value, created once so that calls do not allocate
	once func(fd uintptr)      // like try, for WriteNow
	p    []byte                // the bytes that attempt writes
	n    int                   // bytes that attempt has written
	err  error                 // the error of attempt
	left atomic.Int64          // bytes that wait until the peer has taken others, see Left
}

// NewWriter returns a writer to conn, or conn itself if its descriptor cannot be used. Only one
// goroutine at a time may use it.
func NewWriter(conn net.Conn) io.Writer {
	raw := Raw(conn)
	if raw == nil {
		return conn
	}
	w := &writer{conn: conn, raw: raw}
	w.try = w.attempt
	w.once = func(fd uintptr) {
		if !w.attempt(fd) {
			w.left.Store(0) // the caller does something else with them
		}
	}
	return w
}

// WriteNow writes as much of p as possible without blocking, and returns the number of bytes
// written. w must be the result of NewWriter for a connection for which Raw does not return nil.
func WriteNow(w io.Writer, p []byte) (n int, err error) {
	to := w.(*writer)
	to.p, to.n, to.err = p, 0, nil
	err = to.raw.Control(to.once)
	to.p = nil
	if err == nil {
		err = to.err
	}
	return to.n, explain(to.conn, "write", err)
}

// Write writes as net.Conn does.
func (w *writer) Write(p []byte) (int, error) {
	w.p, w.n, w.err = p, 0, nil
	err := w.raw.Write(w.try)
	w.p = nil
	if w.left.Load() > 0 {
		w.left.Store(0)
	}
	if err == nil {
		err = w.err
	}
	return w.n, explain(w.conn, "write", err)
}

// Left returns how many bytes a Write of w, which NewWriter has returned, cannot write before the peer has taken
// others. It may be called from any goroutine.
func Left(w io.Writer) int64 {
	if to, ok := w.(*writer); ok {
		return to.left.Load()
	}
	return 0
}

// attempt reports whether the write is over.
func (w *writer) attempt(fd uintptr) (over bool) {
	for w.n < len(w.p) {
		n, err := write(fd, w.p[w.n:min(len(w.p), w.n+maxCall)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
			w.left.Store(int64(len(w.p) - w.n))
			return false
		case err != nil:
			w.err = err
			return true
		default:
			w.n += n
		}
	}
	return true
}

// explain returns err as a net.Conn would return it from Read or Write.
func explain(conn net.Conn, call string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // only ReadNow's own io.EOF
		return err
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op.Err // package net calls the operation "raw-read" or "raw-write"
	} else if no, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError(call, no)
	}
	return &net.OpError{Op: call, Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(),
		Err: err}
}
