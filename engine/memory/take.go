package memory

import "github.com/rlproxy/rlproxy/engine"

// Taken is a key that was taken out of an engine, with its states.
type Taken struct {
	Key    string
	States []engine.Inspection
}

// Take removes the keys of one stripe, from 0 to Stripes-1, that match, and returns
// them. Keys with a state whose units cannot be added to those counted elsewhere stay.
func (e *Engine) Take(stripe int, match func(key string) bool) []Taken {
	h, clock := &e.stripes[stripe], e.clock()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []Taken
	for name, key := range h.keys {
		if key.additive() && match(name) {
			out = append(out, Taken{name, h.describe(key, clock)})
		}
	}
	for _, t := range out {
		e.drop(h, h.keys[t.Key])
	}
	return out
}

// Forget drops a key, as RL.RESET does.
func (e *Engine) Forget(key []byte) { e.reset(e.clock(), key) }

// additive reports whether the units of all states of the key can be added to those
// counted elsewhere. Held units cannot.
func (k *record) additive() bool {
	if k.book {
		return false
	}
	for s := &k.states; s != nil; s = s.next {
		if !s.Kind().Additive() {
			return false
		}
	}
	return true
}
