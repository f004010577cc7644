// Package calendar lets an engine on nodes decide by calendar windows, which package limit describes. Whether a request
// is in one of them is decided by the node's clock, but the node knows no calendars. So the engine here gives each
// calendar window the date that the node's clock probably shows, and the node refuses a request with another date than
// that of its clock, with the time in its answer: then the request is asked again with the date of that time. That
// happens when the clocks of proxy and node are on two sides of midnight.
package calendar

import (
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// tries bounds how often a request is asked again: the date of a node's clock changes once a day, but the nodes of
// requests that are asked together may have several.
const tries = 4

// Engine is an engine that knows calendars.
type Engine struct {
	engine.Starter
	Now    func() time.Time // the proxy's clock
	Logger *slog.Logger

	ahead atomic.Int64 // ms by which the clock of a node was ahead when it last refused a date
}

// Do implements engine.Engine.
func (e *Engine) Do(p *engine.Pipeline) {
	dated := e.date(p)
	e.Starter.Do(p)
	if dated {
		e.redo(p)
	}
}

// Start implements engine.Starter.
func (e *Engine) Start(p *engine.Pipeline, done func()) {
	if !e.date(p) {
		e.Starter.Start(p, done)
		return
	}
	e.Starter.Start(p, func() {
		if !slices.ContainsFunc(p.Results, func(r engine.Result) bool { return misdated(&r) != nil }) {
			done()
			return
		}
		go func() { // ends when all results are set
			backend.GuardAnswers(e.Logger, "asking again by the calendar", p, func() { e.redo(p) })
			done()
		}()
	})
}

// OnFreed implements engine.Freer, if the engine on nodes does.
func (e *Engine) OnFreed(freed func(key []byte)) {
	if f, ok := e.Starter.(engine.Freer); ok {
		f.OnFreed(freed)
	}
}

// date gives the calendar windows of requests a date, and reports whether there are any.
func (e *Engine) date(p *engine.Pipeline) (dated bool) {
	var now int64
	for i := range p.Requests {
		r := &p.Requests[i]
		if r.Kind != limit.Fixed || !r.HasCalendar() {
			continue
		}
		if !dated {
			dated, now = true, e.Now().UnixMilli()+e.ahead.Load()
		}
		r.Date(now)
	}
	return dated
}

// redo asks again what was refused for its date. Requests for the same key that come after it were decided before.
func (e *Engine) redo(p *engine.Pipeline) {
	for range tries {
		again := false
		for from := 0; from < len(p.Requests); {
			to := e.redate(p, from)
			if from == to {
				from++
				continue
			}
			e.Starter.Do(&engine.Pipeline{Requests: p.Requests[from:to], Results: p.Results[from:to]})
			from, again = to, true
		}
		if !again {
			return
		}
	}
}

// redate gives the requests from index i on that were refused for their date that of their node, up to one that was
// not. It returns the index of that one.
func (e *Engine) redate(p *engine.Pipeline, i int) int {
	for i < len(p.Requests) {
		m := misdated(&p.Results[i])
		if m == nil {
			break
		}
		e.ahead.Store(m.Now - e.Now().UnixMilli())
		end := i + 1 + p.Requests[i].MoreKeys
		for j := i; j < end; j++ {
			p.Requests[j].Date(m.Now)
		}
		if p.Requests[i].MoreKeys > 0 {
			e.dateKeys(p.Requests[i:end])
		}
		i = end
	}
	return i
}

// dateKeys gives each key of a multi-key request, which was dated by one of them, the date of its own node. To find
// that, it asks about each key alone, at no cost.
func (e *Engine) dateKeys(requests []engine.Request) {
	var p engine.Pipeline
	for i := range requests {
		r := p.Add()
		*r = requests[i]
		r.Cost, r.MoreKeys, r.Hold = 0, 0, nil
	}
	e.Starter.Do(&p)
	for i := range requests {
		if m := misdated(&p.Results[i]); m != nil {
			requests[i].Date(m.Now)
		}
	}
}

// misdated returns the error of a result if it is that, else nil.
func misdated(res *engine.Result) *engine.Misdated {
	m, _ := errors.AsType[*engine.Misdated](res.Err)
	return m
}
