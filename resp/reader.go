package resp

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"syscall"

	"github.com/tidwall/redcon"
)

// Sizes of a session's memory, chosen so that what redis-benchmark sends at -P 64
// arrives in one read, and so that nobody waits long for another's pipeline.
const (
	baseBuffer  = 16 << 10  // bytes read at once at first
	keepBuffer  = 64 << 10  // bytes of a buffer that outlives the commands it grew for
	keepArgs    = 8 << 10   // arguments of an arena that outlives them
	sliceSize   = 256 << 10 // bytes of commands handed over at once, one command aside
	sliceLength = 1024      // commands handed over at once
	peekBuffer  = 2 << 10   // bytes that wait for a silent TLS client
)

// workspace is the memory of a session that has something to do. Silent sessions
// have none: they share the pool.
type workspace struct {
	buf  []byte    // what was read; commands alias it
	args [][]byte  // the arguments of cmds, one after the other
	cmds []Command // what is handed over
	out  []byte    // the session's Out
}

var workspaces = sync.Pool{New: func() any {
	return &workspace{buf: make([]byte, baseBuffer)}
}}

// reader turns a connection's bytes into slices of commands. The framer says where
// a command ends, redcon what it says.
type reader struct {
	conn  net.Conn
	raw   syscall.RawConn // nil: conn is read in the ordinary way
	frame framer
	limit int                  // bytes a command may have that is not whole
	hold  func(delta int) bool // asks for memory beyond the base, gives it back when negative

	ws         *workspace // nil while silent
	start, end int        // ws.buf[start:end] was read and not yet handed over
	err        error      // what ended the stream of commands
	peek       []byte     // used instead of a workspace where raw is nil
	more       bool       // the last read filled what it was given

	try  func(fd uintptr) bool // readReady, made once
	n    int                   // what readReady read
	rerr error                 // and how it failed
}

func newReader(conn net.Conn, cfg *Config, hold func(int) bool) *reader {
	r := &reader{
		conn: conn, raw: rawConn(conn), limit: cfg.QueryBufferLimit, hold: hold,
		frame: framer{maxArgs: int64(cfg.MaxArgs), maxBulk: int64(cfg.ProtoMaxBulkLen)},
	}
	r.try = r.readReady
	return r
}

// slice returns the next commands that were read whole, none when more must be
// read first. They hold until the next call of fill or release. With the last
// commands before bytes that are no command comes the error.
//
// Before trust, commands come one at a time: each may change what the next may be.
func (r *reader) slice(trusted bool) ([]Command, error) {
	if r.ws == nil || r.err != nil {
		return nil, r.err
	}
	ws := r.ws
	clear(ws.cmds) // inline words lie outside the buffer and would be kept
	ws.args, ws.cmds = ws.args[:0], ws.cmds[:0]
	length := sliceLength
	if !trusted {
		length = 1
	}
	for size := 0; len(ws.cmds) < length && size < sliceSize; {
		fr, err := r.frame.next(ws.buf[r.start:r.end], trusted)
		if err == nil && fr.size == 0 {
			break
		}
		if err == nil {
			err = r.take(ws.buf[r.start:r.start+fr.size], fr)
		}
		if err != nil {
			r.err = err
			return ws.cmds, err
		}
		r.start += fr.size
		if len(ws.cmds) > 0 {
			size += fr.size
		}
	}
	return ws.cmds, nil
}

// take adds the whole command b to the slice.
func (r *reader) take(b []byte, fr frame) error {
	ws := r.ws
	var cmd Command
	switch {
	case fr.inline:
		words, ok := splitInline(b)
		if !ok {
			return errQuotes
		}
		cmd = words
	case fr.argc > 0:
		if cap(ws.args)-len(ws.args) < fr.argc {
			// Commands already in the slice keep the arena they were cut from.
			ws.args = make([][]byte, 0, max(2*cap(ws.args), fr.argc, 64))
		}
		at := len(ws.args)
		ok, args, _, rest, err := redcon.ReadNextCommand(b, ws.args[at:])
		if err != nil || !ok || len(args) != fr.argc || len(rest) > 0 {
			panic(fmt.Sprintf("resp: redcon reads a framed command differently: %v", err))
		}
		ws.args = ws.args[:at+fr.argc]
		cmd = args[:fr.argc:fr.argc]
	}
	if len(cmd) == 0 {
		return nil
	}
	if isHTTP(cmd[0]) {
		return errHTTP
	}
	ws.cmds = append(ws.cmds, cmd)
	return nil
}

// isHTTP tells whether a command's name shows that a browser was made to speak to
// this port. Redis looks for the same two names.
func isHTTP(name []byte) bool {
	switch len(name) {
	case 4:
		return name[0]|0x20 == 'p' && bytes.EqualFold(name, []byte("post"))
	case 5:
		return name[0]|0x20 == 'h' && bytes.EqualFold(name, []byte("host:"))
	}
	return false
}

// fill reads more, waiting for it if it must. Slices handed over before are void.
func (r *reader) fill() (int, error) {
	if err := r.room(); err != nil {
		return 0, err
	}
	if r.raw == nil {
		return r.readPlain()
	}
	if err := r.raw.Read(r.try); err != nil {
		return 0, err
	}
	return r.n, r.rerr
}

// readReady reads from a descriptor that may have something. When it has nothing,
// a session that holds nothing lets its workspace go and waits without one.
func (r *reader) readReady(fd uintptr) bool {
	r.wake()
	var ready bool
	r.n, ready, r.rerr = readNow(fd, r.ws.buf[r.end:])
	if !ready && r.end == 0 {
		r.release()
	}
	r.end += r.n
	return ready
}

// readPlain reads where there is no descriptor to wait for. A session that holds
// nothing and expects nothing waits with a small buffer.
func (r *reader) readPlain() (int, error) {
	if r.end == 0 && !r.more {
		r.release()
		if r.peek == nil {
			r.peek = make([]byte, peekBuffer)
		}
		n, err := r.conn.Read(r.peek)
		r.more = n == len(r.peek)
		if n > 0 {
			r.wake()
			r.end = copy(r.ws.buf, r.peek[:n])
		}
		return n, err
	}
	r.wake()
	n, err := r.conn.Read(r.ws.buf[r.end:])
	r.end += n
	r.more = r.end == len(r.ws.buf)
	return n, err
}

// room makes space for at least one byte. Bytes are moved only when as much was
// consumed as is moved, and the buffer doubles otherwise, so that any
// fragmentation costs time linear in what arrives.
func (r *reader) room() error {
	ws := r.ws
	if ws == nil {
		return nil
	}
	if r.start == r.end {
		r.start, r.end = 0, 0
		r.shrink()
		return nil
	}
	if r.end < len(ws.buf) {
		return nil
	}
	size := r.end - r.start
	switch {
	case size >= r.limit:
		return errQueryBuffer
	case size <= len(ws.buf)/2:
		copy(ws.buf, ws.buf[r.start:r.end])
	default:
		if !r.hold(len(ws.buf)) {
			return errMemory
		}
		buf := make([]byte, 2*len(ws.buf))
		copy(buf, ws.buf[r.start:r.end])
		ws.buf = buf
	}
	r.start, r.end = 0, size
	return nil
}

// shrink lets go of memory that only a large command needed.
func (r *reader) shrink() {
	ws := r.ws
	if len(ws.buf) > keepBuffer {
		r.hold(keepBuffer - len(ws.buf))
		ws.buf = make([]byte, keepBuffer)
		ws.args, ws.cmds = nil, nil // they alias the old buffer
	}
	if cap(ws.args) > keepArgs {
		ws.args, ws.cmds = nil, nil
	}
}

// wake takes a workspace from the pool.
func (r *reader) wake() {
	if r.ws == nil {
		r.ws = workspaces.Get().(*workspace)
	}
}

// release gives the workspace back to the pool. What it held is void.
func (r *reader) release() {
	if r.ws == nil {
		return
	}
	ws := r.ws
	r.ws, r.start, r.end = nil, 0, 0
	if len(ws.buf) > baseBuffer {
		r.hold(baseBuffer - len(ws.buf))
		return
	}
	clear(ws.cmds)
	workspaces.Put(ws)
}
