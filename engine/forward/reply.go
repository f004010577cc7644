package forward

import (
	"errors"
	"io"
)

// rawReply stores a node's reply byte for byte. Small replies share blocks of memory; a large one has memory of its
// own, of exactly its size.
type rawReply struct {
	from     *batch
	item     int    // the index in from.items of the command that it replies to
	raw      []byte // the reply; nil before its first byte
	reserved int    // bytes of raw that are counted in the memory of the command's pipeline
	lost     bool   // there was no room: the rest of the reply is read and discarded
}

// replyBlock is memory for small replies. Memory that a reply has used is not reused.
type replyBlock struct {
	free []byte    // the unused memory: its length is 0, its capacity what is left
	last *rawReply // the reply that is being written to free; nil: none
}

const (
	blockSize = 32 << 10 // bytes of the memory that small replies share
	// freeReply is the size in bytes up to which a reply is not counted, for it is in what the reader of commands
	// reserves for each.
	freeReply = 512
)

// errNoRoom replaces a reply that exceeds ReplyLimit, or for which Reserve has no memory.
var errNoRoom = errors.New("ERR the node's reply exceeds client-output-buffer-limit or maxmemory-clients")

// closeLast removes the memory that the last reply has used from the block.
func (b *replyBlock) closeLast() {
	if b.last == nil {
		return
	}
	// A reply that outgrew the block has memory of its own and has used nothing.
	if used := b.last.raw; len(used) > 0 && &used[0] == &b.free[:1][0] {
		b.free = used[len(used):]
	}
	b.last = nil
}

// room makes w write to the block, after the last reply.
func (b *replyBlock) room(w *rawReply) {
	b.closeLast()
	if cap(b.free) < blockSize/8 {
		b.free = make([]byte, 0, blockSize)
	}
	b.last, w.raw = w, b.free[:0]
}

// Write implements io.Writer. go-redis calls it with lines of the reply.
func (w *rawReply) Write(p []byte) (int, error) {
	if w.raw == nil {
		w.from.block.room(w)
	}
	if w.reserve(len(p)) {
		w.raw = append(w.raw, p...)
	}
	return len(p), nil
}

// ReadFrom implements io.ReaderFrom. go-redis calls it with a bulk string of the reply, in an *io.LimitedReader with
// the string's length.
func (w *rawReply) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok || !w.reserve(int(limited.N)) {
		return io.Copy(io.Discard, r)
	}
	at, n := len(w.raw), int(limited.N)
	if cap(w.raw) < at+n { // grow to the exact size, unless the reply has many strings
		larger := make([]byte, at, max(at+n, 2*at))
		copy(larger, w.raw)
		w.raw = larger
	}
	w.raw = w.raw[:at+n]
	read, err := io.ReadFull(r, w.raw[at:])
	w.raw = w.raw[:at+read]
	return int64(read), err
}

// reserve counts n more bytes if the reply exceeds freeReply. It returns false if there is no room for them.
func (w *rawReply) reserve(n int) bool {
	if w.lost {
		return false
	}
	if more := len(w.raw) + n - w.reserved; more > freeReply {
		m := &w.from.items[w.item].from.memory
		if w.lost = !m.reserve(int64(more)) && !w.from.awaitRoom(w, int64(more)); w.lost {
			w.raw = w.raw[:0]
			return false
		}
		w.reserved += more
	}
	return true
}
