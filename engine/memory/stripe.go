package memory

import (
	"sync"
	"unsafe"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/hold"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/shrink"
)

// state is one state of a key.
type state struct {
	next *state // the key's other states, in no order
	limit.State
}

// record is one key and its states. It includes the first state: most keys have one.
type record struct {
	key    string
	states state
	due    int64 // when the janitor looks at it, in ms; at most the key's expiry. Owned by the heap
	at     int32 // its index in the heap. Owned by the heap
	count  int16 // number of states; 0 while the first is not in use
	book   bool  // the key has a book, see hold.go
}

// The cost of a key in addition to its bytes and its states' data. A slot is a string and a pointer in a map that is
// three fifths full, on average, and a pointer in a heap with an eighth to spare.
const (
	stateBytes  = int64(unsafe.Sizeof(state{}))
	recordBytes = int64(unsafe.Sizeof(record{}))
	slotBytes   = 44 + 9
)

// stripe is a share of the keys with a lock of its own. It is as long as a cache line.
type stripe struct {
	mu   sync.Mutex // guards all below, and the records
	keys map[string]*record
	heap dueHeap
	most int // the most keys that the map has had since it was made

	books     map[*record]*hold.Book // of the few keys that hold units or know ids
	mostBooks int                    // as most
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

// full reports whether the key would have too many windows that matter at the clock, charged or
// held, if those of a spec mattered, too. States that have expired do not count: add takes them over.
func (h *stripe) full(k *record, spec *limit.Spec, clock int64) bool {
	if k == nil || !k.book && int(k.count)+spec.N <= engine.MaxStates {
		return false
	}
	windows := spec.N
	for s := &k.states; s != nil; s = s.next {
		if s.Until() >= clock && !s.in(spec) {
			windows++
		}
	}
	if k.book {
		h.books[k].Live(clock, func(held limit.Spec) {
			charged := k.find(&held, held.Windows[0].Length)
			if !held.SharesState(spec) && (charged == nil || charged.Until() < clock) {
				windows++
			}
		})
	}
	return windows > engine.MaxStates
}

// in reports whether the state is that of a window of a spec.
func (s *state) in(spec *limit.Spec) bool {
	for _, w := range spec.Limits() {
		if s.Is(spec, w.Length) {
			return true
		}
	}
	return false
}

// bytes returns the memory that is accounted for the key.
func (k *record) bytes() int64 {
	sum := keyBytes(len(k.key)) + k.states.Bytes()
	for s := k.states.next; s != nil; s = s.next {
		sum += stateBytes + s.Bytes()
	}
	return sum
}

// keyBytes returns the memory that is accounted for a key of that length with one
// state, without that state's data. The allocator rounds up to 16 bytes.
func keyBytes(length int) int64 {
	return recordBytes + slotBytes + int64(length+15)&^15
}

// add returns a state of the key for one window of a spec. It takes over a state that expired
// before a ms, if there is one: at the latest the earlier of the clock and the time of the charge.
// That time is about to become the key's newest, so no window counts such a state again. The state of a rate stays:
// a request that read the clock earlier goes by that. freed is the bytes of the state taken over.
func (k *record) add(spec *limit.Spec, w limit.Window, before int64) (s *state, freed int64) {
	if k.count == 0 {
		k.states.Init(spec, w)
		k.count = 1
		return &k.states, 0
	}
	for s = &k.states; s != nil; s = s.next {
		if s.Until() < before && s.Kind().Windowed() {
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

func (h *stripe) insert(key []byte) *record {
	k := &record{key: string(key)}
	h.keys[k.key] = k
	h.most = max(h.most, len(h.keys))
	return k
}

// remove forgets a key. The caller accounts for its bytes.
func (h *stripe) remove(k *record) {
	h.heap.remove(k)
	delete(h.keys, k.key)
	h.keys = shrink.Map(h.keys, &h.most)
	h.setBook(k, nil)
}

// setBook gives a key a book, or takes it away.
func (h *stripe) setBook(k *record, b *hold.Book) {
	switch {
	case b != nil:
		h.books[k] = b
		h.mostBooks = max(h.mostBooks, len(h.books))
	case k.book:
		delete(h.books, k)
		h.books = shrink.Map(h.books, &h.mostBooks)
	}
	k.book = b != nil
}
