package memory

import "time"

// linger is for how many ms a key is kept after the last ms at which it matters: a pipeline goes by the clock that it
// read when it came, and the sweep by a later one.
const linger = 1000

// janitor drops expired keys, and logs that memory is full, until Close.
func (e *Engine) janitor() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-e.stop:
			return
		case <-tick.C:
			e.sweepAll(e.clock())
			e.log.Tick()
			e.log.End() // if nothing was refused for a while
		}
	}
}

// sweepAll drops the keys that have expired linger ms before clock. It returns false if that was
// done in the same ms: while memory is full, a flood of requests sweeps once per ms.
func (e *Engine) sweepAll(clock int64) bool {
	if e.swept.Swap(clock) == clock {
		return false
	}
	for i := range e.stripes {
		e.sweep(&e.stripes[i], clock-linger)
	}
	return true
}

// sweep drops a stripe's keys that have expired before clock. It visits a key when the expiry is reached that the key
// had at the last visit: at most once per lifetime of a charge.
func (e *Engine) sweep(h *stripe, clock int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.heap) > 0 && h.heap[0].due < clock {
		key := h.heap[0]
		if end := h.end(key); end >= clock {
			h.heap.delay(key, e.forgetIDs(h, key, clock, end))
			continue
		}
		e.drop(h, key)
		e.expired.Add(1)
	}
}

// drop forgets a key of a stripe whose lock is held.
func (e *Engine) drop(h *stripe, key *record) {
	e.memory.Add(-key.bytes())
	if key.book {
		e.memory.Add(-h.books[key].Bytes() - bookBytes)
	}
	e.keys.Add(-1)
	h.remove(key)
}

// reset forgets a key and reports whether it still mattered.
func (e *Engine) reset(clock int64, name []byte) bool {
	h := e.stripe(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	key := h.keys[string(name)]
	if key == nil {
		return false
	}
	live := h.end(key) >= clock
	e.drop(h, key)
	return live
}
