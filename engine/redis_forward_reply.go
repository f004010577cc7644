package engine

import (
	"errors"
	"io"
	"sync/atomic"
)

// rawReply takes a node's reply as it comes. Small replies of many commands share a
// block of memory; a large one has its own, of its own size.
type rawReply struct {
	from *replyBlock
	wait *waiter // whose pipeline holds the bytes
	raw  []byte
	held int  // bytes of raw that are counted
	lost bool // there was no room: the rest is read and thrown away
}

// replyBlock is memory for small replies. What is given out is never used again.
type replyBlock struct {
	free []byte    // without length, its capacity is what is left
	last *rawReply // who writes into it
	all  *replyMemory
}

// replyMemory bounds what forwarded replies take before clients have them.
type replyMemory struct {
	each, total int64 // bytes: one pipeline's, and all pipelines'
	held        atomic.Int64
}

const (
	blockSize = 32 << 10
	// freeReply is how large a reply may be without being counted: a pipeline's
	// requests are few thousands at most.
	freeReply = 4 << 10
)

// errReplies is the reply in place of one that there is no room for.
var errReplies = errors.New("ERR the node's reply is larger than client-output-buffer-limit or maxmemory-clients has room for")

// settle takes what the last reply used out of the block.
func (b *replyBlock) settle() {
	if b.last == nil {
		return
	}
	// A reply that outgrew the block has moved out of it, and taken nothing.
	if used := b.last.raw; len(used) > 0 && &used[0] == &b.free[:1][0] {
		b.free = used[len(used):]
	}
	b.last = nil
}

// room has w write where the last reply ended.
func (b *replyBlock) room(w *rawReply) {
	b.settle()
	if cap(b.free) < blockSize/8 {
		b.free = make([]byte, 0, blockSize)
	}
	b.last, w.raw = w, b.free[:0]
}

// Write implements io.Writer: lines of the reply.
func (w *rawReply) Write(p []byte) (int, error) {
	if w.raw == nil {
		w.from.room(w)
	}
	if w.hold(len(p)) {
		w.raw = append(w.raw, p...)
	}
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom: a string of the reply, whose length r knows.
func (w *rawReply) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok || !w.hold(int(limited.N)) {
		return io.Copy(io.Discard, r)
	}
	at, n := len(w.raw), int(limited.N)
	if cap(w.raw) < at+n { // exactly, but for one of many strings
		larger := make([]byte, at, max(at+n, 2*at))
		copy(larger, w.raw)
		w.raw = larger
	}
	w.raw = w.raw[:at+n]
	read, err := io.ReadFull(r, w.raw[at:])
	return int64(read), err
}

// hold counts n more bytes, once they are many; false: there is no room for them.
func (w *rawReply) hold(n int) bool {
	if w.lost {
		return false
	}
	if more := len(w.raw) + n - w.held; more > freeReply {
		if w.lost = !w.wait.memory.hold(w.from.all, int64(more)); w.lost {
			w.raw = w.raw[:0]
			return false
		}
		w.held += more
	}
	return true
}

// heldMemory is what one pipeline holds of replies.
type heldMemory struct {
	held atomic.Int64
	all  atomic.Pointer[replyMemory]
}

// hold takes n bytes more, if there is room.
func (m *heldMemory) hold(all *replyMemory, n int64) bool {
	m.all.Store(all)
	if m.held.Add(n) > all.each {
		m.held.Add(-n)
		return false
	}
	if all.held.Add(n) > all.total {
		all.held.Add(-n)
		m.held.Add(-n)
		return false
	}
	return true
}

// release gives all back.
func (m *heldMemory) release() {
	if n := m.held.Load(); n > 0 {
		m.held.Store(0)
		m.all.Load().held.Add(-n)
	}
}
