package resp

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/rlproxy/rlproxy/internal/redisline"
	"github.com/rlproxy/rlproxy/internal/sockio"
)

// Sizes of a session's memory. A pipeline of redis-benchmark -P 64 arrives in one read,
// and no client waits long for the pipeline of another.
const (
	baseBuffer  = 16 << 10  // bytes of a new buffer
	keepBuffer  = 64 << 10  // the most bytes of a buffer that is kept after a command
	keepArgs    = 8 << 10   // the most arguments of an arena that is kept after a command
	waitArgs    = 512       // the most arguments of an arena that is kept while waiting for the rest of a command
	sliceSize   = 256 << 10 // bytes of commands after which a slice ends
	sliceLength = 1024      // the most commands in a slice
	peekBuffer  = 2 << 10   // bytes of the buffer with which a silent TLS session waits
)

// What the commands of a slice take while they are answered, in addition to their bytes. It is reserved where a slice
// is made, so that the code that answers a command does not have to account for it. A session has a little without
// reserving: under memory pressure slices get shorter, and clients with short commands are still served.
const (
	freeCommands = 16       // commands of a slice that are not counted
	freeArgs     = 64       // arguments of a slice that are not counted
	freeBytes    = 16 << 10 // bytes of a slice whose copies are not counted
	copiedBytes  = 2 << 20  // the most bytes of a slice that are copied: keys that get a name of several words
	commandCost  = 1 << 10  // bytes of a command: what an engine needs to answer it, and a small reply
	requestCost  = 768      // bytes of one of the first requestArgs arguments: it may be a key that is two requests
	requestArgs  = 512      // how many such keys are worked on at a time
	argumentCost = 48       // bytes of any argument: in the arena, and in the command to a node
	costStep     = 64 << 10 // bytes that are reserved together
)

// workspace is the memory of a session that is being served. A silent session returns its workspace to the pool.
type workspace struct {
	buf  []byte    // bytes read; commands alias it
	args [][]byte  // the arguments of cmds, concatenated
	cmds []Command // the current slice of commands
	out  []byte    // the memory of Session.Out
}

var workspaces = sync.Pool{New: func() any {
	return &workspace{buf: make([]byte, baseBuffer)}
}}

// reader turns a connection's bytes into slices of commands.
type reader struct {
	conn    net.Conn
	raw     syscall.RawConn // nil: conn is read with Read
	poll    sockio.Poll     // of raw
	frame   framer
	limit   int                  // the most bytes of an incomplete command
	reserve func(delta int) bool // reserves bytes beyond the base, or releases them if negative

	ws         *workspace // nil while silent
	start, end int        // ws.buf[start:end] was read and is not in a slice yet
	err        error      // the error that ended the stream of commands
	peek       []byte     // used instead of a workspace while silent if raw is nil
	more       bool       // the last read filled its buffer
	again      bool       // the next call of slice returns what the last one did
	cost       int        // bytes reserved for the commands of the slice

	unread, size atomic.Int64 // end - start, and the length of ws.buf, when the session last waited

	try  func(fd uintptr) bool // readReady as a func value, created once so that calls do not allocate
	now  func(fd uintptr)      // readArrived as a func value, as try
	n    int                   // bytes read by readReady or readArrived
	rerr error                 // the error of readReady or readArrived
}

func newReader(conn net.Conn, cfg *Config, reserve func(int) bool) *reader {
	r := &reader{
		conn: conn, raw: sockio.Raw(conn), limit: cfg.QueryBufferLimit, reserve: reserve,
		frame: framer{maxArgs: int64(cfg.MaxArgs), maxBulk: int64(cfg.ProtoMaxBulkLen)},
	}
	r.try, r.now = r.readReady, r.readArrived
	return r
}

// slice returns the next complete commands, or none if more must be read first. They are valid until the next call of
// fill or release. The last commands before bytes that are not a command are returned together with the error.
//
// Until the session is trusted, slice returns one command at a time, since each may change the bounds of the next.
func (r *reader) slice(trusted bool) ([]Command, error) {
	if r.again {
		r.again = false
		return r.ws.cmds, r.err
	}
	if r.ws == nil || r.err != nil {
		return nil, r.err
	}
	ws := r.ws
	clear(ws.cmds) // releases inline words, which are not in the buffer
	ws.args, ws.cmds = ws.args[:0], ws.cmds[:0]
	r.settle()
	length := sliceLength
	if !trusted {
		length = 1
	}
	args := 0
	for size := 0; len(ws.cmds) < length && size < sliceSize; {
		fr, err := r.frame.next(ws.buf[r.start:r.end], trusted)
		if err == nil && fr.size == 0 {
			break
		}
		if err == nil && !r.afford(len(ws.cmds)+1, args+fr.argc, size+fr.size) {
			if len(ws.cmds) > 0 {
				break // the framer starts again at this command
			}
			err = errMemory
		}
		args += fr.argc
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

// afford reserves the memory of a slice with the given numbers of commands, arguments and
// bytes. It reports whether that was available.
func (r *reader) afford(commands, args, size int) bool {
	commands, args, size = max(commands-freeCommands, 0), max(args-freeArgs, 0), max(size-freeBytes, 0)
	need := commands*commandCost + min(args, requestArgs)*requestCost + args*argumentCost + min(size, copiedBytes)
	if need <= r.cost {
		return true
	}
	more := (need - r.cost + costStep - 1) / costStep * costStep
	if !r.reserve(more) {
		return false
	}
	r.cost += more
	return true
}

// settle releases what was reserved for the commands of the slice.
func (r *reader) settle() {
	if r.cost > 0 {
		r.reserve(-r.cost)
		r.cost = 0
	}
}

// take adds the complete command b to the slice.
func (r *reader) take(b []byte, fr frame) error {
	ws := r.ws
	var cmd Command
	switch {
	case fr.inline:
		words, ok := redisline.Split(b)
		if !ok {
			return errQuotes
		}
		cmd = words
	case fr.argc > 0:
		if cap(ws.args)-len(ws.args) < fr.argc {
			// Commands that are already in the slice keep the old arena.
			ws.args = make([][]byte, 0, max(2*cap(ws.args), fr.argc, 64))
		}
		at := len(ws.args)
		ws.args = split(ws.args, b, fr.argc)
		cmd = ws.args[at:len(ws.args):len(ws.args)]
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

// isHTTP reports whether a command's name is one that an HTTP client sends. Redis looks for the same two names.
func isHTTP(name []byte) bool {
	switch len(name) {
	case 4:
		return name[0]|0x20 == 'p' && bytes.EqualFold(name, []byte("post"))
	case 5:
		return name[0]|0x20 == 'h' && bytes.EqualFold(name, []byte("host:"))
	}
	return false
}

// fill reads at least one byte, and waits for it if necessary. It invalidates the slices returned before.
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

// readReady reads from a descriptor that may be readable. If it is not, the session waits
// with nothing but the bytes of an incomplete command.
func (r *reader) readReady(fd uintptr) bool {
	r.wake()
	var ready bool
	r.n, ready, r.rerr = r.poll.Read(fd, r.ws.buf[r.end:])
	switch {
	case ready:
	case r.end == 0:
		r.release()
	default:
		r.trim()
		r.show()
	}
	r.end += r.n
	return ready
}

// countRead reads what has arrived, without waiting, for a reader that has nothing buffered. It
// reports whether that was all for now; otherwise the caller should call fill.
func (r *reader) countRead() (n int, all bool) {
	r.n, r.rerr = 0, nil
	if r.raw.Control(r.now) != nil {
		return 0, false // closed
	}
	return r.n, r.rerr == nil && (r.n == 0 || r.end < len(r.ws.buf))
}

// readArrived reads from a descriptor that may be readable.
func (r *reader) readArrived(fd uintptr) {
	r.wake()
	r.n, _, r.rerr = sockio.ReadNow(fd, r.ws.buf)
	r.end = r.n
}

// readPlain reads where there is no descriptor to wait for. A session that has nothing
// buffered, and whose last read left nothing behind, waits with a small buffer.
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
	if len(r.ws.buf) > baseBuffer {
		r.trim()
	}
	r.show()
	n, err := r.conn.Read(r.ws.buf[r.end:])
	r.end += n
	r.more = r.end == len(r.ws.buf)
	return n, err
}

// room makes space for at least one byte. It moves bytes only if at least as many were consumed, and doubles the buffer
// otherwise, so that any fragmentation costs time linear in the bytes that arrive.
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
		old := len(ws.buf)
		if !r.reserve(2 * old) { // both buffers, while bytes are copied
			return errMemory
		}
		buf := make([]byte, 2*old)
		copy(buf, ws.buf[r.start:r.end])
		ws.buf = buf
		r.reserve(-old)
	}
	r.start, r.end = 0, size
	return nil
}

// shrink releases memory that only a large command needed.
func (r *reader) shrink() {
	ws := r.ws
	if len(ws.buf) > keepBuffer {
		r.reserve(keepBuffer - len(ws.buf))
		ws.buf = make([]byte, keepBuffer)
		ws.args, ws.cmds = nil, nil // they alias the old buffer
	}
	if cap(ws.args) > keepArgs {
		ws.args, ws.cmds = nil, nil
	}
}

// show stores, for Session.Holdings, what the buffer has.
func (r *reader) show() {
	size := int64(0)
	if r.ws != nil {
		size = int64(len(r.ws.buf))
	}
	if n := int64(r.end - r.start); r.unread.Load() != n || r.size.Load() != size {
		r.unread.Store(n)
		r.size.Store(size)
	}
}

// trim releases what the rest of an incomplete command does not need.
func (r *reader) trim() {
	ws := r.ws
	if cap(ws.args) > waitArgs {
		ws.args, ws.cmds = nil, nil
	}
	if cap(ws.out) > baseBuffer {
		ws.out = nil
	}
}

// wake takes a workspace from the pool.
func (r *reader) wake() {
	if r.ws == nil {
		r.ws = workspaces.Get().(*workspace)
	}
}

// release returns the workspace to the pool. Its contents become invalid.
func (r *reader) release() {
	r.settle()
	if r.ws == nil {
		return
	}
	ws := r.ws
	r.ws, r.start, r.end = nil, 0, 0
	r.show()
	if len(ws.buf) > baseBuffer {
		r.reserve(baseBuffer - len(ws.buf))
		return
	}
	clear(ws.cmds)
	workspaces.Put(ws)
}
