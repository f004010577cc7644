package engine

// ask answers an entry: n requests equal to r, asked together at clock. It admits
// the first granted of them, charges those, and fills in a verdict per window.
// room is false if there was no memory to charge them: then nothing was.
func (e *Embedded) ask(clock int64, r *Request, n int64, vs *[MaxWindows]verdict) (granted int64, room bool) {
	h := e.stripe(r.Key)
	h.mu.Lock()
	granted, room = e.askStripe(h, clock, r, n, vs)
	h.mu.Unlock()
	if !room && e.sweepAll(clock) {
		h.mu.Lock()
		granted, room = e.askStripe(h, clock, r, n, vs)
		h.mu.Unlock()
	}
	return granted, room
}

// askStripe is ask with the stripe's lock held.
func (e *Embedded) askStripe(h *stripe, clock int64, r *Request, n int64, vs *[MaxWindows]verdict) (granted int64, room bool) {
	var states [MaxWindows]*state // of each window; nil: it has none yet
	now := clock
	key := h.keys[string(r.Key)]
	if key != nil {
		now = max(now, key.newest())
		for i := range r.N {
			states[i] = key.find(r, r.Windows[i].Length)
		}
	}
	granted = n
	for i := range r.N {
		vs[i] = verdict{}
		if s := states[i]; s != nil {
			vs[i] = verdict{used: s.used(now, r.Strict), newest: s.counter.newest, last: s.newestMark() - clock}
		}
		if left := r.Windows[i].Limit - vs[i].used; left < r.ask() {
			granted = 0
		} else if r.Cost > 0 {
			granted = min(granted, left/r.Cost)
		}
	}
	if granted > 0 && r.Cost > 0 {
		if !e.charge(h, key, now, r, granted, &states) {
			return 0, false
		}
		for i := range r.N {
			vs[i].newest = states[i].counter.newest - granted*r.Cost
			vs[i].last = states[i].newestMark() - clock
		}
	}
	if granted < n {
		charged := granted * r.Cost
		for i := range r.N {
			if limit := r.Windows[i].Limit; limit-vs[i].used-charged < r.ask() {
				vs[i].retry = states[i].room(now, limit-r.ask(), r.Strict) - clock
			}
		}
	}
	return granted, true
}

// charge adds the cost of n calls of r to every window, or, if memory does not
// suffice, to none. It fills in the states that it creates.
func (e *Embedded) charge(h *stripe, key *record, now int64, r *Request, n int64, states *[MaxWindows]*state) bool {
	var need int64
	var missing int32
	for i := range r.N {
		if s := states[i]; s != nil {
			need += s.grows(now, r.Windows[i])
		} else {
			need += stateBytes + dataBytes(r)
			missing++
		}
	}
	switch {
	case key == nil:
		need += keyBytes(len(r.Key)) - stateBytes // its first state lies in it
	case missing > 0 && key.full(missing, now):
		return false
	}
	if !e.reserve(need) {
		return false
	}
	created := key == nil
	if created {
		key = h.insert(r, r.Windows[0])
		states[0] = &key.states
		e.keys.Add(1)
	}
	for i := range r.N { // first those that are there: add may take one that ended
		if s := states[i]; s != nil {
			s.charge(now, r, r.Windows[i], n)
		}
	}
	for i := range r.N {
		if states[i] == nil {
			s, freed := key.add(r, r.Windows[i], now)
			s.charge(now, r, r.Windows[i], n)
			states[i] = s
			e.memory.Add(-freed)
		}
	}
	if created {
		h.heap.add(key, key.end())
	}
	return true
}

// reserve puts bytes on the account, if it bears them. What gives memory back
// always can.
func (e *Embedded) reserve(bytes int64) bool {
	if bytes == 0 {
		return true
	}
	sum := e.memory.Add(bytes)
	if bytes > 0 && e.cfg.MaxMemory > 0 && sum > e.cfg.MaxMemory {
		e.memory.Add(-bytes)
		return false
	}
	return true
}
