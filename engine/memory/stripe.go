package memory

import (
	"sync"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/hold"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// state is one state of a key.
type state struct {
	next *state // the key's other states, in no order
	limit.State
}

// record is one key and its states. The first state lies in it: most keys have one.
type record struct {
	key    string
	states state
	due    int64 // when the expiry looks at it; at most the key's end. The heap's
	at     int32 // its place in the heap
	count  int16 // states, once the first is in use
	book   bool  // it has a book: see hold.go
}

// What a key costs beside its bytes and its states' data. A slot is a string and a
// pointer in a map that is three fifths full, on average, and a pointer in a heap
// with an eighth to spare.
const (
	stateBytes  = int64(unsafe.Sizeof(state{}))
	recordBytes = int64(unsafe.Sizeof(record{}))
	slotBytes   = 44 + 9
)

// stripe is a share of the keys with a lock of its own.
type stripe struct {
	mu   sync.Mutex // guards all below, and the records
	keys map[string]*record
	heap dueHeap
	most int // the number of keys that the map has room for

	books map[*record]*hold.Book // of the few keys that hold units or know ids
	_     [8]byte                // a cache line to itself
}

// newest returns the ms of the key's newest admission.
func (k *record) newest() int64 {
	last := k.states.Last()
	for s := k.states.next; s != nil; s = s.next {
		last = max(last, s.Last())
	}
	return last
}

// end returns the last ms at which the key can matter.
func (k *record) end() int64 {
	end := k.states.Until()
	for s := k.states.next; s != nil; s = s.next {
		end = max(end, s.Until())
	}
	return end
}

// find returns the key's state for a spec and a window of that length, or nil.
func (k *record) find(spec *limit.Spec, length int64) *state {
	for s := &k.states; s != nil; s = s.next {
		if s.Is(spec, length) {
			return s
		}
	}
	return nil
}

// full reports whether the key cannot have as many more states as are missing.
// States that have ended at the clock do not count: add takes them over.
func (k *record) full(missing int32, clock int64) bool {
	if int32(k.count)+missing <= engine.MaxStates {
		return false
	}
	for s := &k.states; s != nil; s = s.next {
		if s.Until() >= clock {
			missing++
		}
	}
	return missing > engine.MaxStates
}

// bytes returns what the key is accounted for.
func (k *record) bytes() int64 {
	sum := keyBytes(len(k.key)) + k.states.Bytes()
	for s := k.states.next; s != nil; s = s.next {
		sum += stateBytes + s.Bytes()
	}
	return sum
}

// keyBytes returns what a key of that length is accounted for with one state,
// without that state's data. The allocator rounds up to 16 bytes.
func keyBytes(length int) int64 {
	return recordBytes + slotBytes + int64(length+15)&^15
}

// add gives the key a state for one window of a spec. A state that has ended makes room for it: what it
// counted is out of reach once now, the time of a charge, is the key's newest. add
// returns the bytes given up.
func (k *record) add(spec *limit.Spec, w limit.Window, now int64) (s *state, freed int64) {
	if k.count == 0 {
		k.states.Init(spec, w)
		k.count = 1
		return &k.states, 0
	}
	for s = &k.states; s != nil; s = s.next {
		if s.Last() != now && s.Until() < now {
			freed = stateBytes + s.Bytes()
			s.Init(spec, w)
			return s, freed
		}
	}
	s = &state{next: k.states.next}
	s.Init(spec, w)
	k.states.next = s
	k.count++
	return s, 0
}

// insert creates a key without states.
func (h *stripe) insert(key []byte) *record {
	k := &record{key: string(key)}
	h.keys[k.key] = k
	h.most = max(h.most, len(h.keys))
	return k
}

// remove forgets a key. The caller takes its bytes off the account.
func (h *stripe) remove(k *record) {
	h.heap.remove(k)
	delete(h.keys, k.key)
	delete(h.books, k)
	if len(h.keys) < h.most/4 && h.most > 64 {
		// A map keeps the room it once had.
		keys := make(map[string]*record, len(h.keys))
		for name, k := range h.keys {
			keys[name] = k
		}
		h.keys, h.most = keys, len(keys)
	}
}
