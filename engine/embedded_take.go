package engine

// taken is a key that was taken out of an embedded engine, and its states.
type taken struct {
	key    string
	states []State
}

// take forgets the keys of one stripe that pass, and tells what they counted. Keys
// that CL.THROTTLE uses stay: their state is no count.
func (e *Embedded) take(stripe int, pass func(key string) bool) []taken {
	h, clock := &e.stripes[stripe], e.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []taken
	for name, key := range h.keys {
		if !key.counts() || !pass(name) {
			continue
		}
		out = append(out, taken{name, key.tell(clock)})
	}
	for _, t := range out {
		e.drop(h, h.keys[t.key])
	}
	return out
}

// counts tells whether all states of the key are counts of units.
func (e *record) counts() bool {
	for s := &e.states; s != nil; s = s.next {
		if s.op > OpFixed {
			return false
		}
	}
	return true
}
