package engine

import (
	"cmp"
	"slices"
)

// inspect tells of a key's states that still matter, in order of command, window
// and buckets.
func (e *Embedded) inspect(clock int64, name []byte) []State {
	h := e.stripe(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	key := h.keys[string(name)]
	if key == nil {
		return nil
	}
	return key.tell(clock)
}

// tell describes the key's states that still matter.
func (e *record) tell(clock int64) []State {
	now, ttl := max(clock, e.newest()), e.end()+1-clock
	var out []State
	for s := &e.states; s != nil; s = s.next {
		if s.end() < now {
			continue
		}
		used := s.used(now, false)
		out = append(out, State{
			Op: s.op, Window: s.length(), Buckets: s.n(),
			Used: used, Limit: s.limit, Remaining: max(s.limit-used, 0),
			Node: embeddedNode, TTL: ttl, Rate: s.rate(now),
		})
	}
	sortStates(out)
	return out
}

// sortStates puts states in the order in which RL.INSPECT tells of them.
func sortStates(states []State) {
	slices.SortFunc(states, func(a, b State) int {
		return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Buckets, b.Buckets))
	})
}
