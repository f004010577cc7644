package memory

import (
	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/hold"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// A key with holds or remembered ids has a hold.Book in addition to its states. Few keys have one, so books are in a
// map of the stripe, and record.book marks the keys that have one.

const (
	// bookBytes is the cost of a book in addition to its own bytes: a slot of a map that is three fifths full, on
	// average.
	bookBytes = 16 * 5 / 3

	// lookAgain is the longest time, in ms, between two visits of the janitor to a key with a book, to forget expired
	// ids: such a key may expire earlier than its last visit found.
	lookAgain = 60_000

	// forgetAtOnce bounds the ids that the janitor forgets in one visit: decisions may be waiting for it.
	forgetAtOnce = 1000
)

// heldKey is a key during one request about its holds or ids. It implements hold.States.
type heldKey struct {
	target
	e        *Engine
	h        *stripe    // locked
	ns       int64      // the clock, as limit.Spec.Clock
	book     *hold.Book // the key's, or an empty one
	had      int64      // bytes of the book that were accounted for before the request
	reserved int64      // bytes that were reserved for what the request adds
}

// held returns the key of r, which has no rate. ids reports whether the request has an id.
func (e *Engine) held(h *stripe, clock int64, r *engine.Request, ids bool) *heldKey {
	x := &heldKey{target: target{clock: clock, now: clock, key: h.keys[string(r.Key)]}, e: e, h: h, ns: r.Clock}
	if x.key != nil {
		x.book = h.books[x.key]
		x.now = x.key.newest()
	}
	if x.book == nil {
		x.book = new(hold.Book)
	} else {
		x.had = x.book.Bytes() + bookBytes
	}
	x.now = r.Now(clock, 0, max(x.now, x.book.Newest(ids)))
	r.Date(x.now)
	return x
}

// Find implements hold.States.
func (x *heldKey) Find(s *limit.Spec, length int64) *limit.State {
	if x.key != nil {
		if st := x.key.find(s, length); st != nil {
			return &st.State
		}
	}
	return nil
}

// Charge implements hold.States. It may exceed MaxMemory: the units were admitted when there was room.
func (x *heldKey) Charge(at int64, of *limit.Spec, w limit.Window) {
	now := *of // was made at another clock
	now.Clock = x.ns
	s := &now
	st, read := x.key.find(s, w.Length), limit.Reading{}
	if st != nil {
		read = st.Read(at, s)
	} else {
		need := stateBytes + s.FreshBytes()
		if x.key.count == 0 {
			need -= stateBytes // the record includes its first state
		}
		var freed int64
		st, freed = x.key.add(s, w, min(at, x.clock))
		x.e.memory.Add(need - freed)
	}
	x.e.memory.Add(st.Growth(at, w, read))
	st.Charge(at, s, w, 1, read)
}

// read finds and reads the states that r charges, after lapsed holds were removed.
func (x *heldKey) read(r *engine.Request) {
	if x.key == nil {
		return
	}
	for i, w := range r.Limits() {
		if x.states[i] = x.key.find(&r.Spec, w.Length); x.states[i] != nil {
			x.readings[i] = x.states[i].Read(x.now, &r.Spec)
		}
	}
}

// chargeNow charges r, after lapsed holds were removed.
func (x *heldKey) chargeNow(r *engine.Request) error {
	x.read(r)
	return x.e.charge(x.h, &x.target, r)
}

// done accounts for the book, and keeps it unless it is empty.
func (x *heldKey) done(name []byte) {
	e, h := x.e, x.h
	var bytes int64
	switch {
	case !x.book.Empty():
		if x.key == nil {
			x.key = h.insert(name)
			e.keys.Add(1)
			e.memory.Add(keyBytes(len(name)))
			h.heap.add(x.key, x.book.Until())
		}
		h.setBook(x.key, x.book)
		h.heap.hasten(x.key, x.clock+lookAgain)
		bytes = x.book.Bytes() + bookBytes
	case x.had > 0:
		h.setBook(x.key, nil)
	}
	e.memory.Add(bytes - x.had - x.reserved)
}

// askHeld is ask for a key with a book.
func (e *Engine) askHeld(h *stripe, clock int64, r *engine.Request, us *[limit.MaxWindows]limit.Usage) (granted,
	lapsed int64, err error) {
	x := e.held(h, clock, r, false)
	granted, err = x.book.Ask(x, clock, x.now, &r.Spec, us, func() error {
		lapsed = x.book.Lapse(x, x.now)
		return x.chargeNow(r)
	})
	if granted > 0 && r.Cost > 0 {
		x.book.Complete(x, clock, x.now, &r.Spec, us)
	}
	x.done(r.Key)
	return granted, lapsed, err
}

// admit answers a decision with an id.
func (e *Engine) admit(clock int64, r *engine.Request, res *engine.Result) {
	h := e.stripe(r.Key)
	a, err := e.admitStripe(h, clock, r)
	if err != nil && e.madeRoom(err, clock) {
		res.Lapsed = a.Lapsed
		a, err = e.admitStripe(h, clock, r)
	}
	res.Lapsed += a.Lapsed
	if err != nil {
		e.fail(err, r, res)
		return
	}
	res.Decision, res.Again, res.Clock = a.Decision, a.Again, clock
}

func (e *Engine) admitStripe(h *stripe, clock int64, r *engine.Request) (hold.Admission, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := e.held(h, clock, r, true)
	defer x.done(r.Key)
	return x.book.Admit(x, clock, x.now, r, hold.Resources{
		Grow: func(bytes int64) error {
			if h.full(x.key, &r.Spec, clock) {
				return engine.ErrStates
			}
			if x.had == 0 {
				bytes += bookBytes
			}
			if !e.reserve(bytes) {
				return errFull
			}
			x.reserved = bytes
			return nil
		},
		Charge: func() error { return x.chargeNow(r) },
	})
}

// settle ends a hold.
func (e *Engine) settle(clock int64, r *engine.Request, res *engine.Result) {
	h := e.stripe(r.Key)
	h.mu.Lock()
	defer h.mu.Unlock()
	x := e.held(h, clock, r, true)
	defer x.done(r.Key)
	res.Settled, res.Lapsed, res.Err = x.book.Settle(x, x.now, r)
}

// renew extends a lease of RL.ACQUIRE.
func (e *Engine) renew(clock int64, r *engine.Request, res *engine.Result) {
	h := e.stripe(r.Key)
	h.mu.Lock()
	defer h.mu.Unlock()
	x := e.held(h, clock, r, true)
	defer x.done(r.Key)
	res.Renewed, res.Lapsed = x.book.Renew(x, x.now, r)
}

// end returns the last ms at which a key can matter.
func (h *stripe) end(k *record) int64 {
	if !k.book {
		return k.end()
	}
	return max(k.end(), h.books[k].Until())
}

// forgetIDs drops expired ids of a key, and returns when the janitor is to look at the key again.
func (e *Engine) forgetIDs(h *stripe, k *record, clock, end int64) (due int64) {
	if !k.book {
		return end
	}
	x := &heldKey{target: target{clock: clock, key: k}, e: e, h: h, book: h.books[k]}
	x.had = x.book.Bytes() + bookBytes
	more := x.book.Forget(clock, forgetAtOnce)
	x.done(nil)
	if more {
		return clock
	}
	return min(end, clock+lookAgain)
}

// describeHeld adds the held units of a key's windows to its states.
func (k *record) describeHeld(b *hold.Book, now, ttl int64, out []engine.Inspection) []engine.Inspection {
	x := &heldKey{target: target{key: k}}
	b.Windows(x, func(s *limit.Spec, w hold.Window) {
		units, holds := w.Cells.Held(now)
		used := w.Read(now, s).Used - units
		i := 0
		for i < len(out) && (out[i].Kind != s.Kind || out[i].Window != w.Length || out[i].Param != s.Param) {
			i++
		}
		if i == len(out) { // nothing that was charged matters any more
			if units == 0 && used == 0 {
				return
			}
			out = append(out, engine.Inspection{Kind: s.Kind, Window: w.Length, Param: s.Param, Node: nodeName,
				TTL: ttl})
			w.State = nil
		}
		o, charged := &out[i], w.Calls(now)
		if w.State == nil || w.Cells.Last() >= w.State.Last() || charged.Last() > w.State.Last() {
			o.Limit = w.Limit // that of the holds, under which lapsed units are charged
		}
		o.Used, o.Held, o.Holds, o.Lapsed = used, units, holds, w.Cells.Lapsed(now)
		o.Rate = max(charged.Rate(now), w.Cells.Rate(now))
		o.Remaining = max(o.Limit-o.Used-o.Held, 0)
	})
	return out
}
