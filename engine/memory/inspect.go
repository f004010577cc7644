package memory

import "github.com/rlproxy/rlproxy/engine"

// inspect describes a key's states that still matter.
func (e *Engine) inspect(clock int64, name []byte) []engine.Inspection {
	h := e.stripe(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	key := h.keys[string(name)]
	if key == nil {
		return nil
	}
	return h.describe(key, clock)
}

// describe describes the key's states that still matter, in the order of RL.INSPECT.
func (h *stripe) describe(k *record, clock int64) []engine.Inspection {
	now, end, book := max(clock, k.newest()), k.end(), h.books[k]
	if book != nil { // the end of its ids does not matter: they are no states
		now, end = max(now, book.Newest(false)), max(end, book.HeldUntil())
	}
	ttl := end + 1 - clock
	var out []engine.Inspection
	for s := &k.states; s != nil; s = s.next {
		if s.Until() < now {
			continue
		}
		spec := s.Spec()
		used := s.Read(spec.Now(now, 0, now), &spec).Used
		out = append(out, engine.Inspection{
			Kind: s.Kind(), Window: s.Window(), Param: s.Param(),
			Used: used, Limit: s.Limit, Remaining: max(s.Limit-used, 0),
			Node: nodeName, TTL: ttl, Rate: s.Rate(now),
		})
	}
	if book != nil {
		out = k.describeHeld(book, now, ttl, out)
	}
	engine.SortInspections(out)
	return out
}
