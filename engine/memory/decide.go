package memory

import (
	"errors"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// errFull is the error of a request for which there is no memory.
var errFull = errors.New("memory is full")

// madeRoom reports whether a request that met an error is worth another try: memory was full, and
// madeRoom has dropped expired keys.
func (e *Engine) madeRoom(err error, clock int64) bool {
	return errors.Is(err, errFull) && e.sweepAll(clock)
}

// decide answers one decision at a clock in ms; ns is that of the clock beyond the ms, for rates.
func (e *Engine) decide(clock, ns int64, r *engine.Request, res *engine.Result) {
	h := e.stripe(r.Key)
	var us [limit.MaxWindows]limit.Usage
	granted, lapsed, err := e.ask(h, clock, ns, r, &us)
	if err != nil && e.madeRoom(err, clock) {
		res.Lapsed = lapsed
		granted, lapsed, err = e.ask(h, clock, ns, r, &us)
	}
	res.Lapsed += lapsed
	if err != nil {
		e.fail(err, r, res)
		return
	}
	res.Decision = r.Decide(us[:r.N], clock, granted, 0)
}

// fail answers a request that met an error: by its FAIL policy if memory is full.
func (e *Engine) fail(err error, r *engine.Request, res *engine.Result) {
	if errors.Is(err, errFull) {
		e.refuse(r, res)
		return
	}
	res.Err = err
}

// ask decides a request, charges it if it is admitted, and fills in a usage per
// window. granted is 1 for an admission, else 0; lapsed is the number of lapsed holds that ask
// removed. With an error, errFull or engine.ErrStates, nothing was charged.
func (e *Engine) ask(
	h *stripe, clock, ns int64, r *engine.Request, us *[limit.MaxWindows]limit.Usage,
) (granted, lapsed int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := target{clock: clock, now: r.Now(clock, ns, clock), key: h.keys[string(r.Key)]}
	if t.key != nil {
		if t.key.book && !r.Kind.Rated() { // units of a rate are never held
			return e.askHeld(h, clock, r, us)
		}
		t.now = r.Now(clock, ns, t.key.newest())
	}
	if r.Kind == limit.Fixed {
		r.Date(t.now)
	}
	granted = 1
	for i, w := range r.Limits() {
		us[i] = limit.Usage{}
		if t.key != nil {
			t.states[i] = t.key.find(&r.Spec, w.Length)
		}
		if s := t.states[i]; s != nil {
			t.readings[i] = s.Read(t.now, &r.Spec)
			us[i].Used = t.readings[i].Used
			us[i].Empty = s.EmptyAt(t.now, &r.Spec) - clock
		}
		granted = min(granted, r.Fits(w, us[i].Used, 1))
	}
	switch {
	case granted == 0:
		for i, w := range r.Limits() {
			if s := t.states[i]; s != nil && r.Denies(w, &us[i], 0) {
				us[i].Room = s.RoomAt(t.now, w.Limit-r.Wanted(), &r.Spec, t.readings[i]) - clock
			}
		}
	case r.Cost > 0:
		if err := e.charge(h, &t, r); err != nil {
			return 0, 0, err
		}
		for i := range r.N {
			us[i].Empty = t.states[i].EmptyAt(t.now, &r.Spec) - clock
		}
	}
	return granted, 0, nil
}

// target is what one request is about to charge.
type target struct {
	clock    int64 // ms
	now      int64 // by which the windows are decided, in ms; of a rate in ns, see limit.Spec.Now
	key      *record
	states   [limit.MaxWindows]*state // of each window; nil: the key has none yet
	readings [limit.MaxWindows]limit.Reading
}

// charge adds the cost of a request to every window or, if memory is full or the key
// has too many windows, to none. It fills in the states that it creates.
func (e *Engine) charge(h *stripe, t *target, r *engine.Request) error {
	need, missing := t.need(r)
	if missing && h.full(t.key, &r.Spec, t.clock) {
		return engine.ErrStates
	}
	if !e.reserve(need) {
		return errFull
	}
	e.apply(h, t, r)
	return nil
}

// need returns the bytes that a charge adds, and whether any of the windows has no state yet.
func (t *target) need(r *engine.Request) (need int64, missing bool) {
	for i, w := range r.Limits() {
		if s := t.states[i]; s != nil {
			need += s.Growth(t.now, w, t.readings[i])
			continue
		}
		need += stateBytes + r.FreshBytes()
		missing = true
	}
	switch {
	case t.key == nil:
		need += keyBytes(len(r.Key)) - stateBytes // the record includes its first state
	case t.key.count == 0:
		need -= stateBytes // the key has had holds only: the state in its record is free
	}
	return need, missing
}

// apply is charge, after the memory that it needs was reserved.
func (e *Engine) apply(h *stripe, t *target, r *engine.Request) {
	for i, w := range r.Limits() { // existing states first: add may take over one that has expired
		if s := t.states[i]; s != nil {
			s.Charge(t.now, &r.Spec, w, 1, t.readings[i])
		}
	}
	created := t.key == nil
	if created {
		t.key = h.insert(r.Key)
		e.keys.Add(1)
	}
	for i, w := range r.Limits() {
		if t.states[i] == nil {
			s, freed := t.key.add(&r.Spec, w, t.clock)
			s.Charge(t.now, &r.Spec, w, 1, limit.Reading{})
			t.states[i] = s
			e.memory.Add(-freed)
		}
	}
	if created {
		h.heap.add(t.key, t.key.end())
	}
}

// reserve adds bytes to the memory in use, and reports whether they fit within MaxMemory. Negative amounts always do.
func (e *Engine) reserve(bytes int64) bool {
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
