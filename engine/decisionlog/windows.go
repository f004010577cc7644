package decisionlog

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/observe"
)

// windows remembers which keys, commands and windows a line was written for, until the window
// has passed since. It has room for 32,768 of them, in groups by hash. In a full group, the one
// that ends first makes room: if that key is denied again before, it gets another line
// within its window. So with too many keys there are more lines than needed, which the
// rate bounds, and a key's first denial is never missed for want of room.
//
// A window of less than a second counts as a second, so that no key has more than a line a
// second for each of its windows.
type windows struct {
	seed   maphash.Seed
	groups []group
}

type group struct {
	sync.Mutex
	places [16]struct {
		hash uint64        // of the key, its command and its window
		end  time.Duration // when another line is due, since the Recorder started; 0: the place is free
	}
}

const (
	windowGroups = 2048
	shortest     = time.Second // the shortest time between two lines about a window of a key
)

func newWindows() *windows {
	// The system gives the memory of the groups when it is first used.
	return &windows{seed: maphash.MakeSeed(), groups: make([]group, windowGroups)}
}

// turn reports whether it is a denial's turn to have a line.
type turn int

const (
	isFirst    turn = iota // it is, and is remembered
	isNot                  // its window has a line
	isOverRate             // it is, but there were too many lines
)

// first reports whether a denial is the first one in its window, and remembers it then, unless
// there were too many lines: limit is nil if their rate is not limited. now is the time since
// the Recorder started.
func (w *windows) first(req *engine.Request, res *engine.Result, now time.Duration, limit *rate) turn {
	span := length(req, res)
	hash := w.hash(req, res, span)
	g := &w.groups[hash%windowGroups]
	g.Lock()
	defer g.Unlock()
	least := &g.places[0]
	for i := range g.places {
		p := &g.places[i]
		if p.hash == hash && now < p.end {
			return isNot
		}
		if p.end < least.end {
			least = p
		}
	}
	if limit != nil && !limit.take(now) {
		return isOverRate
	}
	least.hash, least.end = hash, now+max(span, shortest)
	return isFirst
}

func (w *windows) hash(req *engine.Request, res *engine.Result, span time.Duration) uint64 {
	var h maphash.Hash
	h.SetSeed(w.seed)
	// Writing to a hash never fails.
	_, _ = h.Write(req.Key)
	var rest [10]byte
	binary.LittleEndian.PutUint64(rest[:], uint64(span))
	rest[8], rest[9] = byte(observe.CommandOf(req)), byte(res.Fail)
	_, _ = h.Write(rest[:])
	return h.Sum64()
}

// length returns the length of the window that a decision describes. For a rate, it is the
// time in which as much as the limit drains. Leases of RL.ACQUIRE have none.
func length(req *engine.Request, res *engine.Result) time.Duration {
	w := &req.Windows[res.Window]
	return req.Span(*w)
}
