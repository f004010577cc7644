package forward

import (
	"sync/atomic"
	"time"
)

// The memory of a pipeline's replies is bounded by what its client has not read yet, and not by what the client asked
// for. When a reply has no room, its worker gives the client the replies before it (batch.collect) and waits until
// enough of them are written. Another worker takes its place meanwhile, so that other clients' commands do not wait for
// this one.

const (
	// maxAside is how many workers of a queue may wait for clients at a time.
	maxAside = 4
	// patience is how long a worker waits for a client that reads nothing. For each further one of the same batch it
	// waits half as long, so that the other replies of the batch come in time.
	patience = time.Second
	roomPoll = time.Millisecond // how often a worker looks for room
)

// reservedMemory counts the bytes of replies that one pipeline holds.
type reservedMemory struct {
	config   *Config      // has the bounds
	reserved atomic.Int64 // bytes
	released atomic.Int64 // 1 and the bytes that were released since Start
	gaveUp   atomic.Int64 // released when a worker last gave up waiting for more
}

// begin prepares for the replies to a pipeline.
func (m *reservedMemory) begin(config *Config) {
	m.config = config
	m.released.Store(1)
	m.gaveUp.Store(0)
}

// reserve reserves n bytes and reports whether there was room.
func (m *reservedMemory) reserve(n int64) bool {
	if m.reserved.Add(n) > m.config.ReplyLimit || !m.config.Reserve(n) {
		m.reserved.Add(-n)
		return false
	}
	return true
}

func (m *reservedMemory) release(n int64) {
	if n > 0 {
		m.config.Reserve(-n)
		m.reserved.Add(-n)
		m.released.Add(n)
	}
}

// awaitRoom reserves n more bytes for w, for which there is no room, once the client has read enough of the replies
// before it. It returns false if the client holds no others, or does not read. A client that has not read makes a
// worker wait once, and not for each of its replies.
func (b *batch) awaitRoom(w *rawReply, n int64) bool {
	p := b.items[w.item].from
	m := &p.memory
	released, since := m.released.Load(), time.Now()
	if m.reserved.Load() == int64(w.reserved) || m.gaveUp.Load() == released || !b.queue.waiting.StepAside() {
		return false
	}
	defer b.queue.waiting.StepBack()
	b.collect(w.item)
	p.makeRoom()
	for now := since; now.Sub(since) < b.patience && now.Before(b.until); now = time.Now() {
		time.Sleep(roomPoll)
		if m.reserve(n) {
			return true
		}
		if r := m.released.Load(); r != released {
			released, since = r, now
		}
	}
	m.gaveUp.Store(released)
	b.patience /= 2
	return false
}

// makeRoom makes Wait return, so that replies are written before all are there.
func (p *Pipeline) makeRoom() {
	p.mu.Lock()
	p.short = true
	p.changed.Signal()
	p.mu.Unlock()
}
