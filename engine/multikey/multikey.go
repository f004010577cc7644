// Package multikey answers a multi-key request, all or nothing, on any engine that decides single keys. It holds the
// units of all keys at once. If every key has admitted them, each hold is settled with the cost of its request;
// otherwise the holds that were granted are released. A hold that is never settled lapses, and is released, about a
// second later. So no key ever has more units charged or held than its limit; during that second it may deny other
// requests.
package multikey

import (
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/hold"
)

const (
	// ttl is the ms for which units are held. Deadlines are rounded up by at most a 64th.
	ttl = 1000

	// confirmWithin is the longest time from sending the holds to sending the settles: the holds last for twice that
	// time, so that a settle does not come too late.
	confirmWithin = ttl / 2 * time.Millisecond
)

// Engine answers multi-key requests by means of an engine that decides single keys.
type Engine struct {
	Do  func(p *engine.Pipeline) // answers requests for one key each
	Now func() time.Time

	// Fail answers r by its FAIL policy, because the key of failed was not answered, and sets Result.Fail.
	Fail func(r, failed *engine.Request, res *engine.Result)
}

// flight is a multi-key request in progress.
type flight struct {
	Engine
	requests []engine.Request
	results  []engine.Result
	hold     engine.Hold // of all keys
}

// Ask answers the multi-key request that begins with request i of p.
func (e Engine) Ask(p *engine.Pipeline, i int) {
	end := i + 1 + p.Requests[i].MoreKeys
	f := flight{
		Engine: e, requests: p.Requests[i:end], results: p.Results[i:end],
		hold: engine.Hold{ID: engine.RandomDigest(), TTL: ttl, Release: true, MultiKey: true},
	}
	f.ask()
}

func (f *flight) ask() {
	sent := f.Now()
	failed, denied := f.holdAll()
	switch {
	case failed >= 0:
		f.giveBack()
		engine.FailAll(f.Fail, f.requests, f.results, failed)
	case denied:
		f.giveBack()
		f.deny()
	case f.Now().Sub(sent) >= confirmWithin:
		f.giveBack()
		f.fail(0)
	case !f.wanted():
		f.giveBack()
		f.deny()
	default:
		if failed := f.confirm(); failed >= 0 {
			f.fail(failed)
		}
	}
}

// holdAll holds the cost of each request, and stores the answers. It returns the index of a request that its key did
// not answer, or -1, and whether any was denied.
func (f *flight) holdAll() (failed int, denied bool) {
	var p engine.Pipeline
	for i := range f.requests {
		r := p.Add()
		*r = f.requests[i]
		if r.MoreKeys, r.Confirm = 0, nil; r.Cost > 0 {
			r.Hold = &f.hold
		}
	}
	f.Do(&p)
	failed = -1
	for i := range p.Results {
		res := &p.Results[i]
		f.results[i] = *res
		if failed < 0 && (res.Err != nil || res.Fail != engine.FailDefault) {
			failed = i
		}
		denied = denied || !res.Allowed
	}
	return failed, denied
}

// held reports whether request i has held its cost.
func (f *flight) held(i int) bool {
	res := &f.results[i]
	return f.requests[i].Cost > 0 && res.Allowed && res.Err == nil && res.Fail == engine.FailDefault
}

// settle ends all holds that were granted, charging all of their units or none. It returns the index of a request whose
// hold was gone or could not be settled, or -1.
func (f *flight) settle(charge bool) (failed int) {
	var p engine.Pipeline
	var of []int
	for i := range f.requests {
		if !f.held(i) {
			continue
		}
		asked, r := &f.requests[i], p.Add()
		r.Op, r.Key, r.Kind, r.Hold, r.Fail = engine.OpSettle, asked.Key, asked.Kind, &f.hold, asked.Fail
		if charge {
			r.Cost = asked.Cost
		}
		of = append(of, i)
	}
	if len(of) > 0 {
		f.Do(&p)
	}
	for j, i := range of {
		if res := &p.Results[j]; res.Err != nil || !res.Settled.Settled {
			return i
		}
	}
	return -1
}

// wanted asks the request how many of its units are still wanted, all of which are held, see engine.Request.Confirm. It
// returns false if none is.
func (f *flight) wanted() bool {
	r := &f.requests[0]
	if r.Confirm == nil {
		return true
	}
	units := r.Confirm()
	if units > 0 {
		f.results[0].Remaining += r.Cost - units
		r.Cost = units
	}
	return units > 0
}

// giveBack releases the holds that were granted. One that cannot be released lapses.
func (f *flight) giveBack() { f.settle(false) }

// confirm charges the held units.
func (f *flight) confirm() (failed int) {
	if failed := f.settle(true); failed >= 0 {
		return failed
	}
	for i := range f.results {
		if f.held(i) {
			res := &f.results[i]
			f.requests[i].Redate(&res.Decision, res.Clock, hold.Deadline(res.Clock, ttl, false))
		}
	}
	return -1
}

// deny answers all requests with a denial. The answer of a key that had room describes it without this request.
func (f *flight) deny() {
	for i := range f.results {
		d := &f.results[i].Decision
		if !d.Allowed {
			continue
		}
		d.Allowed, d.RetryAfter = false, 0
		if d.Remaining += f.requests[i].Cost; d.Remaining == d.Limit {
			d.ResetAfter = 0
		}
	}
}

// fail answers by the FAIL policy of request i.
func (f *flight) fail(i int) {
	f.results[i] = engine.Result{}
	f.Fail(&f.requests[i], &f.requests[i], &f.results[i])
	engine.FailAll(f.Fail, f.requests, f.results, i)
}
