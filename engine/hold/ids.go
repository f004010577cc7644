package hold

import (
	"container/heap"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// class says which requests an id belongs to: those of another class do not see it.
type class uint8

const (
	once        class = iota // ONCE
	reservation              // RL.RESERVE, and questions about several keys
	slots                    // RL.ACQUIRE
	classes     = iota
)

// name is the name of an id.
type name struct {
	class  class
	digest engine.Digest
}

// entry is what is known of an id.
type entry struct {
	name
	place  int32          // in the heap
	until  int64          // the ms from which on the id is unknown
	answer limit.Decision // the first one
	hold   *held          // nil for ONCE
}

// held is a hold, out or settled.
type held struct {
	at      int64 // its deadline
	units   int64
	ttl     int64 // ms, as asked
	release bool  // it is forgotten when it lapses
	settled bool
	result  engine.Settlement // the answer to another equal settle, once it is settled
	kind    limit.Kind
	buckets int64
	windows []limit.Window // with the limits under which it was admitted
}

// spec returns a spec of the windows of a hold, without cost.
func (h *held) spec() limit.Spec {
	s := limit.Spec{Kind: h.kind, Buckets: h.buckets, N: len(h.windows)}
	copy(s.Windows[:], h.windows)
	return s
}

// ids are the ids of one key, by name and by when they end.
type ids struct {
	all    map[name]*entry
	due    dueHeap
	counts [classes]int // by class
	limits int          // windows of all holds
	most   int          // the number of ids that the map has room for
	last   int64        // the ms of the newest request that changed anything here
}

// What an id costs: it has a slot of a map that is three fifths full, on average, and one of the heap. A map has room
// for eight.
const (
	entryBytes = int64(unsafe.Sizeof(entry{})) + 8 + slotBytes*5/3 + 10
	slotBytes  = int64(unsafe.Sizeof(name{})+7)&^7 + 8 + 1
	mapBytes   = 48 + 8*slotBytes
	holdBytes  = int64(unsafe.Sizeof(held{}))
	limitBytes = int64(unsafe.Sizeof(limit.Window{}))
)

// forgetAtOnce bounds how many ids that have ended one request forgets, so that none waits for long.
const forgetAtOnce = 16

// find returns what is known of an id at now, or nil.
func (x *ids) find(n name, now int64) *entry {
	if e := x.all[n]; e != nil && now < e.until {
		return e
	}
	return nil
}

// put makes an id known until a ms, in place of what was known of it. now is the time of the request.
func (x *ids) put(now int64, e *entry) {
	x.touch(now)
	if old := x.all[e.name]; old != nil {
		x.drop(old)
	}
	if x.all == nil {
		x.all = make(map[name]*entry)
	}
	x.all[e.name] = e
	x.most = max(x.most, len(x.all))
	x.counts[e.class]++
	if e.hold != nil {
		x.limits += len(e.hold.windows)
	}
	heap.Push(&x.due, e)
}

// keep changes until when an id is known.
func (x *ids) keep(now int64, e *entry, until int64) {
	x.last = max(x.last, now)
	e.until = until
	heap.Fix(&x.due, int(e.place))
}

// touch notes a request that changes what is known, and forgets some of what has ended.
func (x *ids) touch(now int64) {
	x.last = max(x.last, now)
	x.forget(now, forgetAtOnce)
}

// forget drops at most so many ids that have ended, and reports whether there may be more.
func (x *ids) forget(now int64, most int) bool {
	for len(x.due) > 0 && x.due[0].until <= now {
		if most == 0 {
			return true
		}
		most--
		x.drop(x.due[0])
	}
	return false
}

func (x *ids) drop(e *entry) {
	heap.Remove(&x.due, int(e.place))
	delete(x.all, e.name)
	x.counts[e.class]--
	if len(x.all) == 0 {
		x.all, x.due, x.most = nil, nil, 0
	}
	if e.hold != nil {
		x.limits -= len(e.hold.windows)
	}
	if len(x.all) < x.most/4 && x.most > 64 { // a map keeps the room it once had
		all := make(map[name]*entry, len(x.all))
		for n, e := range x.all {
			all[n] = e
		}
		x.all, x.most = all, len(all)
		x.due = append(make(dueHeap, 0, len(x.due)+len(x.due)/4), x.due...)
	}
}

// until returns the last ms at which any id is known, 0 if there is none.
func (x *ids) until() int64 {
	var last int64
	for _, e := range x.due[len(x.due)/2:] { // the latest is a leaf
		last = max(last, e.until-1)
	}
	return last
}

func (x *ids) bytes() int64 {
	if len(x.due) == 0 {
		return 0
	}
	return mapBytes + int64(len(x.due))*entryBytes + int64(x.counts[reservation]+x.counts[slots])*holdBytes + int64(x.limits)*limitBytes
}

// dueHeap has the ids by when they end, the earliest first.
type dueHeap []*entry

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	e := x.(*entry)
	e.place = int32(len(*h))
	*h = append(*h, e)
}

// Pop implements heap.Interface.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return e
}
