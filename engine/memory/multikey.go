package memory

import (
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// multiKey is a multi-key request that is being decided.
type multiKey struct {
	e        *Engine
	clock    int64 // ms
	requests []engine.Request
	results  []engine.Result
	keys     []*heldKey // of each request, whose stripes are locked
	usages   [][limit.MaxWindows]limit.Usage
	granted  []int64 // 1 for each key that has room
}

// decideMultiKey answers a multi-key request. If a key's windows are too many, or do not fit into
// memory, that key's error or FAIL policy answers for all keys, and nothing is charged.
func (e *Engine) decideMultiKey(clock int64, requests []engine.Request, results []engine.Result) {
	t := multiKey{
		e: e, clock: clock, requests: requests, results: results, keys: make([]*heldKey, len(requests)),
		usages: make([][limit.MaxWindows]limit.Usage, len(requests)), granted: make([]int64, len(requests)),
	}
	failed, err := t.decide()
	if err != nil && e.madeRoom(err, clock) {
		failed, err = t.decide()
	}
	if err != nil {
		e.fail(err, &requests[failed], &results[failed])
		engine.FailAll(func(r, _ *engine.Request, res *engine.Result) { e.refuse(r, res) }, requests, results, failed)
	}
}

// lockAll locks the stripes of all keys, in the one order in which any goroutine locks several.
func (e *Engine) lockAll(requests []engine.Request) []*stripe {
	at := make([]int, 0, len(requests))
	for i := range requests {
		at = append(at, e.stripeIndex(requests[i].Key))
	}
	slices.Sort(at)
	var stripes []*stripe
	for _, i := range slices.Compact(at) {
		e.stripes[i].mu.Lock()
		stripes = append(stripes, &e.stripes[i])
	}
	return stripes
}

func unlockAll(stripes []*stripe) {
	for _, h := range stripes {
		h.mu.Unlock()
	}
}

// decide locks all keys, and charges them if each of them has room. With an error, which is about the
// key of request failed, nothing is charged.
func (t *multiKey) decide() (failed int, err error) {
	stripes := t.e.lockAll(t.requests)
	defer unlockAll(stripes)
	all := true
	for i := range t.requests {
		if t.granted[i], err = t.ask(i); err != nil {
			return i, err
		}
		all = all && t.granted[i] > 0
	}
	if all {
		if failed, err := t.charge(); err != nil {
			return failed, err
		}
	}
	for i := range t.requests {
		r, us := t.requests[i], &t.usages[i]
		if t.granted[i] > 0 && !all {
			r.Cost = 0 // this key had room, but is not charged
		}
		d := r.Decide(us[:r.N], t.clock, t.granted[i], 0)
		d.Allowed = all
		t.results[i].Decision = d
	}
	return 0, nil
}

// ask returns 1 if the key of request i has room, and 0 if it denies.
func (t *multiKey) ask(i int) (granted int64, err error) {
	r := &t.requests[i]
	h := t.e.stripe(r.Key)
	x := t.e.held(h, t.clock, r, false)
	t.keys[i] = x
	return x.book.Ask(x, t.clock, x.now, &r.Spec, &t.usages[i], func() error {
		x.read(r)
		if _, missing := x.need(r); missing && h.full(x.key, &r.Spec, t.clock) {
			return engine.ErrStates
		}
		return nil
	})
}

// charge charges all keys or, if memory does not suffice for the key of request failed, none.
func (t *multiKey) charge() (failed int, err error) {
	reserved := int64(0)
	for i, x := range t.keys {
		r := &t.requests[i]
		if r.Cost == 0 {
			continue
		}
		t.results[i].Lapsed += x.book.Lapse(x, x.now)
		x.read(r)
		need, _ := x.need(r)
		if !t.e.reserve(need) {
			t.e.memory.Add(-reserved)
			failed, err = i, errFull
			break
		}
		reserved += need
	}
	for i, x := range t.keys {
		r := &t.requests[i]
		if r.Cost == 0 {
			continue
		}
		if err == nil {
			t.e.apply(x.h, &x.target, r)
			x.book.Complete(x, t.clock, x.now, &r.Spec, &t.usages[i])
		}
		x.done(r.Key)
	}
	return failed, err
}
