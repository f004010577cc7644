package hold

import (
	"container/heap"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/shrink"
)

// class is the namespace of an id: requests of different classes may use the same id.
type class uint8

const (
	once        class = iota // ONCE
	reservation              // RL.RESERVE, and multi-key requests
	slots                    // RL.ACQUIRE
	classes     = iota
)

// idName identifies an id.
type idName struct {
	class  class
	digest engine.Digest
}

// rememberedID is a remembered id.
type rememberedID struct {
	idName
	index  int32          // index in the heap
	until  int64          // the ms at which the id expires
	answer limit.Decision // the first answer
	hold   *holdRecord    // nil for ONCE
}

// holdRecord is a hold, outstanding or settled.
type holdRecord struct {
	at      int64 // its deadline
	units   int64
	ttl     int64 // ms, as requested
	release bool  // it is forgotten when it lapses
	settled bool
	result  engine.Settlement // once it is settled: the answer to a repeated settle
	kind    limit.Kind
	buckets int64
	windows []limit.Window // with the limits under which it was admitted
}

// spec returns a spec of the windows of a hold, without cost.
func (h *holdRecord) spec() limit.Spec {
	s := limit.Spec{Kind: h.kind, Param: h.buckets, N: len(h.windows)}
	copy(s.Windows[:], h.windows)
	return s
}

// ids are the remembered ids of one key, by name and by expiry.
type ids struct {
	all    map[idName]*rememberedID
	due    dueHeap
	counts [classes]int // by class
	limits int          // windows of all holds
	most   int          // the most ids that the map has had since it was made
	last   int64        // the ms of the newest request that changed anything here
}

// The memory of an id: a slot of a map that is three fifths full, on average, and one of the heap. The smallest map has
// eight slots.
const (
	entryBytes = int64(unsafe.Sizeof(rememberedID{})) + 8 + slotBytes*5/3 + 10
	slotBytes  = int64(unsafe.Sizeof(idName{})+7)&^7 + 8 + 1
	mapBytes   = 48 + 8*slotBytes
	holdBytes  = int64(unsafe.Sizeof(holdRecord{}))
	limitBytes = int64(unsafe.Sizeof(limit.Window{}))
)

// forgetAtOnce bounds how many expired ids one request forgets, so that none takes long.
const forgetAtOnce = 16

// find returns the entry of an id that is remembered at now, or nil.
func (x *ids) find(n idName, now int64) *rememberedID {
	if e := x.all[n]; e != nil && now < e.until {
		return e
	}
	return nil
}

// put remembers an id, in place of an entry with the same name. now is the time of the request.
func (x *ids) put(now int64, e *rememberedID) {
	x.touch(now)
	if old := x.all[e.idName]; old != nil {
		x.drop(old)
	}
	if x.all == nil {
		x.all = make(map[idName]*rememberedID)
	}
	x.all[e.idName] = e
	x.most = max(x.most, len(x.all))
	x.counts[e.class]++
	if e.hold != nil {
		x.limits += len(e.hold.windows)
	}
	heap.Push(&x.due, e)
}

// keep changes the expiry of an id.
func (x *ids) keep(now int64, e *rememberedID, until int64) {
	x.last = max(x.last, now)
	e.until = until
	heap.Fix(&x.due, int(e.index))
}

// touch notes the time of a request that changes an id, and forgets some expired ids.
func (x *ids) touch(now int64) {
	x.last = max(x.last, now)
	x.forget(now, forgetAtOnce)
}

// forget drops at most `most` expired ids, and reports whether there may be more.
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

func (x *ids) drop(e *rememberedID) {
	heap.Remove(&x.due, int(e.index))
	delete(x.all, e.idName)
	x.counts[e.class]--
	if len(x.all) == 0 {
		x.all, x.due, x.most = nil, nil, 0
	}
	if e.hold != nil {
		x.limits -= len(e.hold.windows)
	}
	x.all = shrink.Map(x.all, &x.most)
	if n := len(x.due); n < cap(x.due)/4 && n > 64 {
		x.due = append(make(dueHeap, 0, n+n/4), x.due...)
	}
}

// until returns the last ms at which any id is remembered, 0 if there is none.
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
	return mapBytes + int64(len(x.due))*entryBytes + int64(x.counts[reservation]+x.counts[slots])*holdBytes +
		int64(x.limits)*limitBytes
}

// dueHeap is a min-heap of the ids by expiry, for container/heap.
type dueHeap []*rememberedID

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].until < h[j].until }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = int32(i), int32(j)
}

// Push implements heap.Interface.
func (h *dueHeap) Push(x any) {
	e := x.(*rememberedID)
	e.index = int32(len(*h))
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
