package sockio

import (
	"runtime"
	"sync/atomic"
	"time"
)

// If a single client sends requests one at a time, most of the latency is spent on waking threads and idle cores. A
// reader that polls for a short time avoids that. It polls only while no other socket is in use, because polling takes
// time from others, and only while polling succeeds often enough.
const (
	pollTime  = 100 * time.Microsecond // how long a reader polls
	soon      = 2 * pollTime           // a shorter wait than this is a reason to poll the next time
	maxOthers = 2                      // the most reads on other sockets since this reader's last one for it to poll
	maxShort  = 8                      // the most short waits that are counted
	pollCost  = 4                      // the number of short waits that one unsuccessful poll cancels
)

// reads counts the reads, on all sockets, that found something.
var reads atomic.Uint64

// spareCore is true if a thread that polls leaves a core to its peer.
var spareCore = runtime.NumCPU() > 1 && runtime.GOMAXPROCS(0) > 1

// Poll reads from one descriptor, and polls if that is worthwhile. Only one goroutine at a time may
// use it. The zero value is ready for use.
type Poll struct {
	reads uint64    // value of the global reads when this reader last found something
	short int       // number of short waits, minus pollCost for each unsuccessful poll; at least 0
	began time.Time // when the wait for the peer began; zero if there is none or it is not timed
}

// Read reads what has arrived. If nothing has, it may poll for up to pollTime. ready is false if
// nothing has arrived, and the goroutine should wait until the descriptor is readable.
func (p *Poll) Read(fd uintptr, buf []byte) (n int, ready bool, err error) {
	n, ready, err = ReadNow(fd, buf)
	switch {
	case ready && p.began.IsZero():
	case ready:
		if time.Since(p.began) < soon {
			p.short = min(p.short+1, maxShort)
		}
	case spareCore && p.began.IsZero() && reads.Load()-p.reads <= maxOthers:
		p.began = time.Now()
		if p.short > 0 {
			n, ready, err = p.poll(fd, buf)
		}
	}
	if ready {
		p.began, p.reads = time.Time{}, reads.Add(1)
	}
	return n, ready, err
}

// poll polls until something has arrived, pollTime is over, or another socket has been read.
func (p *Poll) poll(fd uintptr, buf []byte) (n int, ready bool, err error) {
	for before := reads.Load(); time.Since(p.began) < pollTime && reads.Load() == before; {
		if n, ready, err = ReadNow(fd, buf); ready {
			p.short = min(p.short+1, maxShort)
			return n, ready, err
		}
		yield()
	}
	p.short = max(p.short-pollCost, 0)
	return n, ready, err
}
