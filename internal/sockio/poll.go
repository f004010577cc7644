package sockio

import (
	"runtime"
	"sync/atomic"
	"time"
)

// When a single client sends requests one at a time, most of the latency is waking threads and idle
// cores. A reader that polls for a short time avoids that. It polls only while it is alone, since
// polling takes time from others, and only while that succeeds often enough.
const (
	lookFor   = 100 * time.Microsecond // how long a reader polls
	soon      = 2 * lookFor            // a wait that is shorter than this suggests polling the next time
	maxOthers = 2                      // the most reads on other sockets since this reader's last one for it still to count as alone
	maxShort  = 8                      // the most short waits that are remembered
	lookCost  = 4                      // the short waits that unsuccessful polling cancels
)

// reads counts the reads of all sockets that found something.
var reads atomic.Uint64

// spareCore reports whether a thread that polls leaves a core to its peer.
var spareCore = runtime.NumCPU() > 1 && runtime.GOMAXPROCS(0) > 1

// Poll reads what arrives on one descriptor, for one goroutine at a time. The zero value is
// ready for use.
type Poll struct {
	reads uint64    // of all sockets, when this one last found something
	short int       // waits that were short, less lookCost for each unsuccessful polling
	began time.Time // when the wait for the peer began; zero while there is none, or it is not timed
}

// Read reads what has arrived. If nothing has, it may poll for some time. It returns false
// if the goroutine should wait until the descriptor is readable.
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
			n, ready, err = p.look(fd, buf)
		}
	}
	if ready {
		p.began, p.reads = time.Time{}, reads.Add(1)
	}
	return n, ready, err
}

// look polls until something has arrived, the time for polling is over, or another socket has
// been read.
func (p *Poll) look(fd uintptr, buf []byte) (n int, ready bool, err error) {
	for before := reads.Load(); time.Since(p.began) < lookFor && reads.Load() == before; {
		if n, ready, err = ReadNow(fd, buf); ready {
			p.short = min(p.short+1, maxShort)
			return n, ready, err
		}
		yield()
	}
	p.short = max(p.short-lookCost, 0)
	return n, ready, err
}
