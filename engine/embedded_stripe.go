package engine

import (
	"sync"
	"unsafe"
)

// record is one key and its states. The first state lies in it: most keys have one.
type record struct {
	key    string
	states state
	due    int64 // when the expiry looks at it; at most the key's end. Of the heap
	at     int32 // its place in the heap
	count  int32 // states
}

// What a key costs beside its bytes and its states' data. A slot is a string and a
// pointer in a map that is three fifths full, on average, and a pointer in a heap
// with an eighth to spare.
const (
	recordSize = int64(unsafe.Sizeof(record{}))
	slotBytes  = 44 + 9
)

// maxStates bounds the states of one key, which are looked through one by one.
const maxStates = 1024

// stripe is a part of the keys with a lock of its own.
type stripe struct {
	mu   sync.Mutex // guards all below, and the records
	keys map[string]*record
	heap dueHeap
	most int      // keys since the map was made: what it has room for
	_    [16]byte // a cache line to itself
}

// newest returns the ms of the key's newest admission.
func (e *record) newest() int64 {
	last := e.states.last
	for s := e.states.next; s != nil; s = s.next {
		last = max(last, s.last)
	}
	return last
}

// end returns the last ms at which the key can matter.
func (e *record) end() int64 {
	end := e.states.end()
	for s := e.states.next; s != nil; s = s.next {
		end = max(end, s.end())
	}
	return end
}

// find returns the key's state for r and a window of that length, or nil.
func (e *record) find(r *Request, length int64) *state {
	for s := &e.states; s != nil; s = s.next {
		if s.is(r, length) {
			return s
		}
	}
	return nil
}

// full tells whether the key cannot have as many states more as are missing at now.
func (e *record) full(missing int32, now int64) bool {
	if e.count+missing <= maxStates {
		return false
	}
	for s := &e.states; s != nil; s = s.next {
		if s.end() >= now {
			missing++
		}
	}
	return missing > maxStates
}

// bytes returns what the key is reckoned to hold.
func (e *record) bytes() int64 {
	sum := keyBytes(len(e.key)) + e.states.bytes()
	for s := e.states.next; s != nil; s = s.next {
		sum += stateBytes + s.bytes()
	}
	return sum
}

// keyBytes returns what a key of that length is reckoned to hold with one state,
// without that state's data. The allocator rounds up to 16 bytes.
func keyBytes(length int) int64 {
	return recordSize + slotBytes + int64(length+15)&^15
}

// add gives the key a state for r and w. A state that ended is used again: what it
// counted is out of reach once now, the time of a charge, is the key's newest.
// It returns the bytes let go.
func (e *record) add(r *Request, w Window, now int64) (s *state, freed int64) {
	for s = &e.states; s != nil; s = s.next {
		if s.last != now && s.end() < now {
			freed = stateBytes + s.bytes()
			s.init(r, w)
			return s, freed
		}
	}
	s = &state{next: e.states.next}
	s.init(r, w)
	e.states.next = s
	e.count++
	return s, 0
}

// insert creates a key with one state.
func (h *stripe) insert(r *Request, w Window) *record {
	e := &record{key: string(r.Key), count: 1}
	e.states.init(r, w)
	h.keys[e.key] = e
	h.most = max(h.most, len(h.keys))
	return e
}

// remove forgets a key. The caller takes its bytes off the account.
func (h *stripe) remove(e *record) {
	h.heap.remove(e)
	delete(h.keys, e.key)
	if len(h.keys) < h.most/4 && h.most > 64 {
		// A map keeps the room it once had.
		keys := make(map[string]*record, len(h.keys))
		for k, e := range h.keys {
			keys[k] = e
		}
		h.keys, h.most = keys, len(keys)
	}
}
