package sockio

import (
	"runtime"
	"sync/atomic"
	"time"
)

// While one client asks and waits, its peers answer at once, and most of the time goes into waking
// threads, and cores that went to sleep. A reader that looks again and again saves that. It does so
// only while it is alone, since it would take the time of others, and while it finds something that way.
const (
	lookFor   = 100 * time.Microsecond // how long a wait is spent with looking
	soon      = 2 * lookFor            // a wait without looking that is this short makes the next one a candidate
	maxOthers = 2                      // reads of other sockets since the last of its own with which a reader is still alone
	maxShort  = 8                      // the most short waits that are remembered
	lookCost  = 4                      // the short waits that one vain look costs
)

// reads counts the reads of all sockets that found something.
var reads atomic.Uint64

// spareCore reports whether a thread that looks leaves a core to its peer.
var spareCore = runtime.NumCPU() > 1 && runtime.GOMAXPROCS(0) > 1

// Poll reads what arrives on one descriptor, for one goroutine at a time. The zero value is
// ready for use.
type Poll struct {
	reads uint64    // of all sockets, when this one last found something
	short int       // waits that were short, less what vain looks cost
	began time.Time // when the wait for the peer began; zero while there is none, or it is not timed
}

// Read reads what has arrived. If nothing has, it may look again for some time. It
// returns false when the goroutine had better wait until the descriptor is readable.
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

// look reads again and again until something has arrived, or the time for that is over, or
// other sockets have something to read.
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
