package engine

// throttle answers a CL.THROTTLE, by its policy if memory is full.
func (e *Embedded) throttle(clock int64, r *Request, res *Result) {
	h := e.stripe(r.Key)
	h.mu.Lock()
	d, room := e.throttleStripe(h, clock, r)
	h.mu.Unlock()
	if !room && e.sweepAll(clock) {
		h.mu.Lock()
		d, room = e.throttleStripe(h, clock, r)
		h.mu.Unlock()
	}
	if !room {
		e.refuse(clock, r, res)
		return
	}
	res.Decision = d
}

// throttleStripe is throttle with the stripe's lock held. room is false if there
// was no memory to charge the request.
func (e *Embedded) throttleStripe(h *stripe, clock int64, r *Request) (d Decision, room bool) {
	var states [MaxWindows]*state
	now := clock
	key := h.keys[string(r.Key)]
	var drains int64
	if key != nil {
		now = max(now, key.newest())
		if states[0] = key.find(r, 0); states[0] != nil {
			drains = states[0].counter.newest
		}
	}
	d, drains = r.Throttle.decide(clock, drains, r.Cost)
	if !d.Allowed || r.Cost == 0 {
		return d, true
	}
	// The state is one of a window of no length, in which the cost is the new time.
	q := *r
	q.N, q.Windows[0], q.Cost = 1, Window{Limit: r.Throttle.limit()}, drains
	return d, e.charge(h, key, now, &q, 1, &states)
}
