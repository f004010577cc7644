package advance

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// MostKept is the most balances of a proxy: keys, and specs of these. Requests for other keys are decided at home.
const MostKept = 4096

const (
	stripes = 64
	// idle is after how long without a request a balance without an advance is forgotten.
	idle = 2 * time.Second
)

// Balances has the balances of a proxy. It is for use by many goroutines. Its zero value must get a function from Open.
type Balances struct {
	// Size is the number of balances. If it is 0, no request has to be looked up. Only Balances writes it.
	Size atomic.Int64

	send    func(*HomeCall)
	usual   atomic.Int64 // ms for which units are advanced; 0: no units are asked for
	stripes [stripes]stripe

	draws, units, calls, pending, refused, calms, recalls, late, lapsed, unused atomic.Int64 // for Totals
}

type stripe struct {
	mu       sync.Mutex
	holdings map[string]*holding // by key; guarded by mu, and so are the holdings
	slowest  time.Duration       // that a call took; guarded by mu
}

// holding is the balance of one key and the requests with one spec.
type holding struct {
	Balance
	key       string
	spec      limit.Spec              // without its cost
	used      [limit.MaxWindows]int64 // by window, at the newest answer: the units that counted, with all advances
	empty     [limit.MaxWindows]int64 // by window, at the newest answer: when nothing charged or held counts any more
	roundTrip time.Duration           // to the node
	touched   Instant                 // when the newest request came
	lapsed    int64                   // holds that the home has removed since the newest draw
	next      *holding                // of the same key, with another spec
}

// HomeCall is a call to the home of a key. It must be ended, once.
type HomeCall struct {
	Message
	Key  []byte
	Spec limit.Spec // of a request
	Span int64      // ms for which units are asked for: the Period of the balance

	sent    Instant
	holding *holding
}

// Open sets the function that sends calls. It may end them before it returns.
func (t *Balances) Open(send func(*HomeCall)) { t.send = send }

// Configure sets for how many ms units are advanced, unless windows are too short or the node is far; 0: never. Then
// what is left of advances is given back.
func (t *Balances) Configure(usual int64) { t.usual.Store(usual) }

func (t *Balances) stripe(key []byte) *stripe { return &t.stripes[xxhash.Sum64(key)%stripes] }

// find returns the holding for requests with the spec s, or nil.
func (s *stripe) find(key []byte, spec *limit.Spec) *holding {
	e := s.holdings[string(key)]
	if e == nil {
		return nil
	}
	bounds := *spec
	bounds.Cost = 0
	for e != nil && e.spec != bounds {
		e = e.next
	}
	return e
}

// Watch counts the requests for a key with the spec s from now on, and asks for an advance if there are many. A node
// has just decided one of them, which left room, and its answer took a time.
func (t *Balances) Watch(key []byte, s *limit.Spec, now Instant, roundTrip time.Duration) {
	if t.usual.Load() == 0 || s.Cost == 0 || !s.Kind.Windowed() || s.Shortest() < parts*shortest ||
		s.Smallest() < Reserve*s.Cost {
		return
	}
	var call *HomeCall
	st := t.stripe(key)
	st.mu.Lock()
	if e := st.find(key, s); e != nil {
		e.travelled(roundTrip)
		t.configure(e)
		if e.Wants(now) {
			call = t.begin(e, now)
		}
	} else if t.Size.Load() < MostKept {
		st.add(&holding{key: string(key), spec: *s, touched: now, roundTrip: roundTrip})
		t.Size.Add(1)
	}
	st.mu.Unlock()
	if call != nil {
		t.send(call)
	}
}

// add adds a holding.
func (s *stripe) add(e *holding) {
	e.spec.Cost = 0
	e.next = s.holdings[e.key]
	if s.holdings == nil {
		s.holdings = make(map[string]*holding)
	}
	s.holdings[e.key] = e
}

// travelled notes how long an answer took. Long ones count little, because a node may stand still.
func (e *holding) travelled(roundTrip time.Duration) {
	e.roundTrip = min(e.roundTrip+(roundTrip-e.roundTrip)/8, roundTrip)
}

// Draw counts a request, and reports whether it is admitted from an advance. Otherwise the home decides it. lapsed is
// how many lapsed holds calls about the advance have removed since the draw before.
func (t *Balances) Draw(
	key []byte, s *limit.Spec, now Instant, d *limit.Decision,
) (admitted bool, lapsed int64) {
	st := t.stripe(key)
	st.mu.Lock()
	e := st.find(key, s)
	if e == nil {
		st.mu.Unlock()
		return false, 0
	}
	e.touched = now
	if admitted = e.Request(now, s.Cost); admitted {
		*d, lapsed, e.lapsed = e.decision(s, now), e.lapsed, 0
		t.draws.Add(1)
		t.units.Add(s.Cost)
	}
	call := t.due(e, now)
	st.mu.Unlock()
	if call != nil {
		t.send(call)
	}
	return admitted, lapsed
}

// decision returns the decision about a request that was just admitted. The units that count are those of the newest
// answer and what was drawn since.
func (e *holding) decision(s *limit.Spec, now Instant) limit.Decision {
	var usages [limit.MaxWindows]limit.Usage
	clock, at := e.latest(now)-1, e.draws[len(e.draws)-1].At
	for i, w := range s.Limits() {
		used := max(e.used[i]-e.left-s.Cost, 0)
		usages[i].Used = used
		if s.Kind == limit.Slide {
			usages[i].Empty = w.Dated(at) + w.Length + 1 - clock
		} else {
			usages[i].Empty = s.EmptyIf(nil, w, at, used+s.Cost) - clock
		}
		usages[i].Empty = max(usages[i].Empty, e.empty[i]-clock)
	}
	return s.Decide(usages[:s.N], clock, 1, 0)
}

// configure sets for how long, and for how many requests, the holding asks for units.
func (t *Balances) configure(e *holding) {
	e.Period = 0
	if usual := t.usual.Load(); usual > 0 {
		e.Period = Span(usual, e.spec.Shortest(), e.roundTrip)
	}
	if e.Hot = Pays(e.Period, e.roundTrip); e.Period == 0 {
		e.Recall()
	}
}

// due begins the call that is due for a holding, if one is. The stripe's lock is held.
func (t *Balances) due(e *holding, now Instant) *HomeCall {
	if e.number == 0 {
		return nil
	}
	if t.configure(e); !e.Due(now) {
		return nil
	}
	return t.begin(e, now)
}

// begin begins a call.
func (t *Balances) begin(e *holding, now Instant) *HomeCall {
	c := &HomeCall{Message: e.Call(now), Key: []byte(e.key), Spec: e.spec, Span: e.Period, sent: now, holding: e}
	c.Spec.Cost = e.cost
	t.calls.Add(1)
	t.pending.Add(1)
	return c
}

// End takes the home's answer to a call: its terms, and by window the units that count, and when none that is charged
// or held does any more. terms is nil if there was no answer.
func (t *Balances) End(c *HomeCall, now Instant, terms *Terms, used, empty []int64) {
	e, st := c.holding, t.stripe(c.Key)
	st.mu.Lock()
	if terms != nil {
		trip := now.Since(c.sent)
		e.travelled(trip)
		st.slowest = max(st.slowest, trip)
		if terms.Late {
			t.late.Add(1)
		}
		if terms.Number == 0 && c.Account != nil && c.Account.Keep > 0 {
			t.lapsed.Add(1)
			t.unused.Add(e.left)
		}
		switch {
		case terms.Calm:
			t.calms.Add(1)
		case terms.Number == 0 && c.Want > 0:
			t.refused.Add(1)
		}
		e.lapsed += terms.Lapsed
		copy(e.used[:], used)
		copy(e.empty[:], empty)
	}
	e.End(c.Message, c.sent, terms)
	call := t.due(e, now)
	t.pending.Add(-1)
	st.mu.Unlock()
	if call != nil {
		t.send(call)
	}
}

// Recall gives back the advances for a key.
func (t *Balances) Recall(key []byte, now Instant) {
	st := t.stripe(key)
	st.mu.Lock()
	var calls []*HomeCall
	for e := st.holdings[string(key)]; e != nil; e = e.next {
		if e.number != 0 && !e.recalled {
			t.recalls.Add(1)
		}
		e.Recall()
		if c := t.due(e, now); c != nil {
			calls = append(calls, c)
		}
	}
	st.mu.Unlock()
	for _, c := range calls {
		t.send(c)
	}
}

// RecallAll gives back all advances: keys may have other homes now.
func (t *Balances) RecallAll() {
	for i := range t.stripes {
		st := &t.stripes[i]
		st.mu.Lock()
		for _, e := range st.holdings {
			for ; e != nil; e = e.next {
				e.Recall()
			}
		}
		st.mu.Unlock()
	}
}

// Tick sends the calls that are due although no request came, and forgets the balances of keys that went quiet.
func (t *Balances) Tick(now Instant) {
	for i := range t.stripes {
		st := &t.stripes[i]
		var calls []*HomeCall
		st.mu.Lock()
		for key, first := range st.holdings {
			var kept *holding
			for e := first; e != nil; {
				next := e.next
				if c := t.due(e, now); c != nil {
					calls = append(calls, c)
				}
				if e.number == 0 && !e.calling && now.Since(e.touched) > idle {
					t.Size.Add(-1)
				} else {
					e.next, kept = kept, e
				}
				e = next
			}
			if kept == nil {
				delete(st.holdings, key)
			} else {
				st.holdings[key] = kept
			}
		}
		st.mu.Unlock()
		for _, c := range calls {
			t.send(c)
		}
	}
}

// Totals are what Balances have counted.
type Totals struct {
	Kept, Out, Left int64 // balances, advances, and units that may be drawn from these, now

	Draws, Units    int64         // requests that were admitted from advances, and their units
	Calls           int64         // to homes, about advances
	Pending         int64         // calls that have no answer yet
	Refused         int64         // calls that asked for units and got none, for lack of room
	Calms           int64         // calls that asked for units shortly after a recall, and so got none
	Recalls, Lapsed int64         // of advances
	Late            int64         // recalled advances that came back when the home waited no more for them
	Unused          int64         // units that lapsed without having been drawn
	Slowest         time.Duration // that a call took: the draws after it are dated too late by at most that
}

// Totals returns what has been counted.
func (t *Balances) Totals() Totals {
	c := Totals{
		Kept: t.Size.Load(), Draws: t.draws.Load(), Units: t.units.Load(), Calls: t.calls.Load(),
		Pending: t.pending.Load(), Refused: t.refused.Load(), Calms: t.calms.Load(), Recalls: t.recalls.Load(),
		Late: t.late.Load(), Lapsed: t.lapsed.Load(), Unused: t.unused.Load(),
	}
	for i := range t.stripes {
		st := &t.stripes[i]
		st.mu.Lock()
		c.Slowest = max(c.Slowest, st.slowest)
		st.mu.Unlock()
	}
	t.Out(func(_ string, units int64) { c.Out, c.Left = c.Out+1, c.Left+units })
	return c
}

// Out calls back with the key of each advance, and the units that may be drawn from it. back must not use t.
func (t *Balances) Out(back func(key string, units int64)) {
	for i := range t.stripes {
		st := &t.stripes[i]
		st.mu.Lock()
		for _, e := range st.holdings {
			for ; e != nil; e = e.next {
				if e.number != 0 {
					back(e.key, e.left)
				}
			}
		}
		st.mu.Unlock()
	}
}
