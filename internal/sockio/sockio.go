// Package sockio reads from and writes to sockets with fewer steps than package net. On Linux its
// system calls are made without telling Go's scheduler. They never block, but the
// scheduler cannot know that: if a call seems to last, as any may on a busy machine, it hands the
// rest of the thread's work to another thread, and then looks for such calls every 20 us.
//
// Package net still waits for a socket, keeps its deadlines and closes it.
package sockio

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// most is the most bytes of one system call. The garbage collector may have to wait for
// a call to end.
const most = 256 << 10

// Raw returns access to the descriptor of conn, or nil if it cannot be used, as under TLS.
func Raw(conn net.Conn) syscall.RawConn {
	sc, ok := conn.(syscall.Conn)
	if !ok || !usable {
		return nil
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil
	}
	return raw
}

// SkipEmptyReads returns raw, but a Read of it for which nothing has arrived returns at once and does
// not call its function. It is for callers who only look whether anything has, one at a time.
func SkipEmptyReads(raw syscall.RawConn) syscall.RawConn {
	s := &skipping{RawConn: raw}
	s.look = func(fd uintptr) { s.empty = empty(fd) }
	return s
}

type skipping struct {
	syscall.RawConn
	look  func(fd uintptr) // sets empty; created once so that calls do not allocate
	empty bool             // nothing had arrived at the last look
}

func (s *skipping) Read(f func(fd uintptr) bool) error {
	if err := s.Control(s.look); err != nil || s.empty {
		return err
	}
	return s.RawConn.Read(f)
}

// ReadNow reads what has arrived from a descriptor. It returns false if nothing has.
func ReadNow(fd uintptr, p []byte) (n int, ready bool, err error) {
	for {
		n, err := read(fd, p[:min(len(p), most)])
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
	raw  syscall.RawConn
	try  func(fd uintptr) bool // attempt as a func value, created once so that calls do not allocate
	poll Poll
	p    []byte // what attempt fills
	n    int    // bytes that attempt has read
	err  error  // the error of attempt
}

// NewReader returns a reader of conn for one goroutine at a time, or conn itself if its
// descriptor cannot be used.
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
	raw  syscall.RawConn
	try  func(fd uintptr) bool // attempt as a func value, created once so that calls do not allocate
	once func(fd uintptr)      // as try, for WriteNow
	p    []byte                // what attempt writes
	n    int                   // bytes that attempt has written
	err  error                 // the error of attempt
}

// NewWriter returns a writer to conn for one goroutine at a time, or conn itself if its
// descriptor cannot be used.
func NewWriter(conn net.Conn) io.Writer {
	raw := Raw(conn)
	if raw == nil {
		return conn
	}
	w := &writer{conn: conn, raw: raw}
	w.try = w.attempt
	w.once = func(fd uintptr) { w.attempt(fd) }
	return w
}

// WriteNow writes as much of p as that is possible without waiting. w is of NewWriter, for a
// connection of which Raw is not nil.
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
	if err == nil {
		err = w.err
	}
	return w.n, explain(w.conn, "write", err)
}

// attempt reports whether the write is over.
func (w *writer) attempt(fd uintptr) (over bool) {
	for w.n < len(w.p) {
		n, err := write(fd, w.p[w.n:min(len(w.p), w.n+most)])
		switch {
		case errors.Is(err, syscall.EINTR):
		case errors.Is(err, syscall.EAGAIN):
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
		err = op.Err // of package net, which calls it "raw-read" or "raw-write"
	} else if no, ok := errors.AsType[syscall.Errno](err); ok {
		err = os.NewSyscallError(call, no)
	}
	return &net.OpError{Op: call, Net: conn.LocalAddr().Network(), Source: conn.LocalAddr(), Addr: conn.RemoteAddr(), Err: err}
}
