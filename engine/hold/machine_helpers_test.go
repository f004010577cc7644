package hold

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
)

// subject is a key as an engine keeps it, with its states and a Book.
type subject struct {
	book   Book
	states []*limit.State
	newest int64 // ms of the newest charge
	now    int64 // of the request under way
	mutant *mutant
}

func (k *subject) Find(s *limit.Spec, length int64) *limit.State {
	for _, st := range k.states {
		if st.Is(s, length) {
			return st
		}
	}
	return nil
}

func (k *subject) Charge(at int64, s *limit.Spec, w limit.Window) {
	if at = k.mutant.chargeAt(at, k.now); at < 0 {
		return
	}
	st := k.Find(s, w.Length)
	if st == nil {
		st = new(limit.State)
		st.Init(s, w)
		k.states = append(k.states, st)
	}
	st.Charge(at, s, w, 1, st.Read(at, s))
	k.newest = max(k.newest, at)
}

// at sets the time by which a request is decided.
func (k *subject) at(clock int64, ids bool) int64 {
	k.now = max(clock, k.newest, k.book.Newest(ids && !k.mutant.forgetsNewest))
	return k.now
}

// decide answers a decision as an engine does.
func (k *subject) decide(clock int64, r *engine.Request) (Admission, error) {
	if r.Hold != nil && r.Cost > 0 {
		now := k.at(clock, true)
		k.mutant.before(k, now, r)
		a, err := k.book.Admit(k, clock, now, r, Resources{
			Grow: func(int64) error { return nil },
			Charge: func() error {
				k.chargeAll(now, &r.Spec)
				return nil
			},
		})
		if err == nil && a.Allowed && !a.Again {
			k.mutant.held(k, now, r)
		}
		return a, err
	}
	now := k.at(clock, false)
	book := &k.book
	if k.mutant.ignoresHeld {
		book = new(Book)
	}
	var us [limit.MaxWindows]limit.Usage
	var a Admission
	granted, err := book.Ask(k, clock, now, &r.Spec, &us, func() error {
		a.Lapsed = book.Lapse(k, now)
		k.chargeAll(now, &r.Spec)
		return nil
	})
	if granted > 0 && r.Cost > 0 {
		book.Complete(k, clock, now, &r.Spec, &us)
	}
	if granted == 0 {
		k.mutant.denied(k, clock, now, r, &us)
	}
	a.Decision = r.Decide(us[:r.N], clock, granted, 0)
	return a, err
}

func (k *subject) chargeAll(now int64, s *limit.Spec) {
	for _, w := range s.Limits() {
		k.Charge(now, s, w)
	}
}

// admits reports whether a request would be admitted, without writing anything.
func (k *subject) admits(clock int64, r *engine.Request) bool {
	var us [limit.MaxWindows]limit.Usage
	s, now := r.Spec, k.at(clock, r.Hold != nil && r.Cost > 0)
	s.Cost = max(s.Cost, 1)
	s.Date(now)
	granted, err := k.book.Ask(k, clock, now, &s, &us, func() error { return engine.ErrStates })
	return granted > 0 || err != nil
}

func (k *subject) settle(clock int64, r *engine.Request) (engine.Settlement, int64, error) {
	now := k.at(clock, true)
	undo := k.mutant.settles(k, now, r)
	done, lapsed, err := k.book.Settle(k, now, r)
	undo(done)
	return done, lapsed, err
}

func (k *subject) renew(clock int64, r *engine.Request) (bool, int64) {
	now := k.at(clock, true)
	k.mutant.before(k, now, r)
	return k.book.Renew(k, now, r)
}

// machine makes random requests to one key, and compares every answer with that of the model.
type machine struct {
	*rand.Rand
	clock int64
	key   *subject
	model *model.Key
	ids   []engine.Digest
	sent  []engine.Request // requests with ids, to be settled and repeated
	lines *conformance.Lines
	seen  map[string]int
}

// base is where clocks start: 2100-01-01.
const base = 4102444800000

func newMachine(seed uint64, m *mutant) *machine {
	run := &machine{Rand: rand.New(rand.NewPCG(seed, 1)), clock: base, key: &subject{mutant: m}, model: model.New(), seen: map[string]int{}}
	run.lines = &conformance.Lines{Rand: run.Rand, Keys: []string{"k"}, Without: []string{"ONCE", "SHARDS", "FAIL", "CONN", "SHADOW", "AND"}}
	for i := range 8 {
		run.ids = append(run.ids, engine.DigestOf([]byte{byte(i)}))
	}
	return run
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// run makes a number of steps, and returns the first difference, or nothing.
func (m *machine) run(steps int) string {
	for step := range steps {
		if m.IntN(60) == 0 {
			m.lines.Narrow()
		}
		if wrong := m.step(); wrong != "" {
			return fmt.Sprintf("step %d, clock base+%d: %s", step, m.clock-base, wrong)
		}
		if over := m.model.Excess(m.clock * 1000); over > 0 {
			return fmt.Sprintf("step %d: %d units above the largest limit are charged or held", step, over)
		}
		for _, w := range m.key.book.windows {
			sum := w.units
			for _, l := range w.list {
				sum -= l.charge + l.release
			}
			if sum != 0 { // RoomAt would never return
				return fmt.Sprintf("step %d: the cells do not add up to the units held, by %d", step, sum)
			}
		}
		m.pass()
	}
	return ""
}

// ofBucket is the id of what is held of buckets. No command charges them more than was held; a full one may take 146 years
// to fill already.
var ofBucket = engine.DigestOf([]byte("bucket"))

// windowed are the kinds whose units can be held.
var windowed = conformance.Kinds(limit.Kind.Windowed)

func (m *machine) step() string {
	switch n := m.IntN(100); {
	case n < 15:
		return m.decide(m.reserve(limit.Slide))
	case n < 33:
		return m.decide(m.reserve(windowed...))
	case n < 43:
		return m.decide(m.acquire())
	case n < 53:
		return m.decide(m.request(append([]limit.Kind{limit.Slide, limit.Slide}, windowed...)...))
	case n < 58:
		r := m.request(windowed...)
		r.Hold = &engine.Hold{ID: pick(m.Rand, m.ids...), Once: true}
		m.sent = append(m.sent, r)
		return m.decide(r)
	case n < 68 && len(m.sent) > 0: // what got no answer is sent again
		return m.decide(m.sent[m.IntN(len(m.sent))])
	case n < 71:
		return m.renew()
	case n < 72 && m.IntN(5) == 0:
		m.key, m.model = &subject{mutant: m.key.mutant}, model.New() // RL.RESET
		return ""
	case n < 76:
		return m.inspect()
	}
	return m.settle()
}

// request returns a random request of an algorithm's command, or of RL.ACQUIRE.
func (m *machine) request(kinds ...limit.Kind) engine.Request {
	var p engine.Pipeline
	m.lines.Add(&p, pick(m.Rand, kinds...).String())
	return p.Requests[0]
}

func (m *machine) ttl() int64 {
	return 1 + m.Int64N(pick[int64](m.Rand, 20, 200, 5000, 100_000, 100_000, 10_000_000))
}

func (m *machine) reserve(kinds ...limit.Kind) engine.Request {
	r := m.request(kinds...)
	r.Hold = &engine.Hold{ID: pick(m.Rand, m.ids...), TTL: m.ttl(), Release: m.IntN(2) == 0}
	if r.Kind == limit.Bucket {
		r.Hold.ID = ofBucket
	}
	m.sent = append(m.sent, r)
	return r
}

func (m *machine) acquire() engine.Request {
	r := m.request(limit.Concurrency)
	r.Hold.ID = pick(m.Rand, m.ids...)
	m.sent = append(m.sent, r)
	return r
}

func (m *machine) decide(r engine.Request) string {
	if len(m.sent) > 12 {
		m.sent = slices.Delete(m.sent, 0, 6)
	}
	for i, w := range r.Limits() { // a limit changes
		if m.IntN(20) == 0 {
			r.Windows[i].Limit = max(w.Limit+m.Int64N(7)-3, r.Cost, 1)
		}
	}
	r.Date(m.key.at(m.clock, r.Hold != nil && r.Cost > 0))
	want := m.model.Decide(m.clock*1000, &r.Spec, r.Hold)
	got, err := m.key.decide(m.clock, &r)
	if err != nil || want.Decision != got.Decision || want.Again != got.Again || want.Lapsed != got.Lapsed {
		return fmt.Sprintf("%v %v COST %d %+v: the model answers %+v, the key %+v %v", r.Kind, r.Limits(), r.Cost, r.Hold, want, got, err)
	}
	switch {
	case want.Again:
		m.seen["again"]++
	case want.Allowed && r.Hold != nil && !r.Hold.Once:
		m.seen["held"]++
	case want.Allowed:
		m.seen["charged"]++
	default:
		m.seen["denied"]++
		if !m.key.admits(m.clock+got.RetryAfter, &r) || got.RetryAfter > 1 && m.key.admits(m.clock+got.RetryAfter-1, &r) {
			return fmt.Sprintf("%v %v COST %d: retry_after %d is not exact", r.Kind, r.Limits(), r.Cost, got.RetryAfter)
		}
	}
	if want.Lapsed > 0 {
		m.seen["lapsed"]++
	}
	return ""
}

func (m *machine) settle() string {
	r := engine.Request{Op: engine.OpSettle, Hold: &engine.Hold{ID: pick(m.Rand, m.ids...)}, Spec: limit.Spec{Cost: m.Int64N(4)}}
	if len(m.sent) > 0 && m.IntN(4) > 0 {
		sent := m.sent[m.IntN(len(m.sent))]
		r.Hold.ID, r.Kind = sent.Hold.ID, sent.Kind
		r.Cost = pick(m.Rand, 0, sent.Cost, sent.Cost/2, sent.Cost, sent.Cost+m.Int64N(3), sent.Cost*2)
		if m.IntN(100) == 0 {
			r.Cost = engine.MaxCount(r.Kind) + pick(m.Rand, 1, 1, 1, -m.Int64N(100))
		}
	}
	if r.Hold.ID == ofBucket {
		r.Cost = m.Int64N(2)
	}
	want, lapsed, refused := m.model.Settle(m.clock*1000, r.Kind, r.Hold.ID, r.Cost)
	got, took, err := m.key.settle(m.clock, &r)
	if want != got || lapsed != took || err != refused { //nolint:errorlint // both are the constant
		return fmt.Sprintf("settle with %d: the model answers %+v %d %v, the key %+v %d %v", r.Cost, want, lapsed, refused, got, took, err)
	}
	switch {
	case refused != nil:
		m.seen["refused"]++
	case got.Overrun > 0:
		m.seen["overrun"]++
	case got.Returned > 0:
		m.seen["returned"]++
	case got.Settled:
		m.seen["settled"]++
	default:
		m.seen["unknown"]++
	}
	return ""
}

func (m *machine) renew() string {
	r := engine.Request{Op: engine.OpRenew, Hold: &engine.Hold{ID: pick(m.Rand, m.ids...), TTL: m.ttl()}, Spec: limit.Spec{Kind: limit.Concurrency}}
	want, lapsed := m.model.Renew(m.clock*1000, r.Hold.ID, r.Hold.TTL)
	got, took := m.key.renew(m.clock, &r)
	if want != got || lapsed != took {
		return fmt.Sprintf("renew: the model answers %v %d, the key %v %d", want, lapsed, got, took)
	}
	m.seen[fmt.Sprint("renewed ", got)]++
	return ""
}

// inspect compares the held units of each window.
func (m *machine) inspect() string {
	now, got := m.key.at(m.clock, false), map[string]string{}
	m.key.book.Windows(m.key, func(s *limit.Spec, w Window) {
		if units, holds := w.Cells.Held(now); holds > 0 {
			r := w.Read(now, s)
			got[fmt.Sprint(s.Kind, w.Length, s.Param)] = fmt.Sprint(units, holds, r.Used)
		}
	})
	for _, s := range m.model.Inspect(m.clock * 1000) {
		id := fmt.Sprint(s.Kind, s.Window, s.Param)
		if want := fmt.Sprint(s.Held, s.Holds, s.Used+s.Held); s.Holds > 0 && got[id] != want {
			return fmt.Sprintf("%s: the model holds %s, the key %s", id, want, got[id])
		}
		if s.Holds > 0 {
			delete(got, id)
		}
	}
	if len(got) > 0 {
		return fmt.Sprintf("the key holds %v", got)
	}
	if end := m.key.book.Until(); !m.key.book.Empty() && m.model.Live((end+1)*1000) && !m.chargedLater(end+1) {
		return fmt.Sprintf("the key ends at base+%d, and the model does not", end-base)
	}
	return ""
}

// chargedLater reports whether a state of the key matters at a ms.
func (m *machine) chargedLater(at int64) bool {
	return slices.ContainsFunc(m.key.states, func(s *limit.State) bool { return s.Until() >= at })
}

// pass moves the clock: usually forward by a little, sometimes to a deadline or back.
func (m *machine) pass() {
	switch m.IntN(24) {
	case 0, 1, 2, 3:
		m.clock += m.Int64N(4)
	case 4, 5, 6:
		m.clock += m.Int64N(70)
	case 7, 8:
		m.clock += m.Int64N(1500)
	case 9:
		m.clock += m.Int64N(20_000)
	case 10, 11, 12: // to where something lapses, or one ms off
		if b := &m.key.book; len(b.windows) > 0 {
			w := b.windows[m.IntN(len(b.windows))]
			m.clock = w.list[m.IntN(len(w.list))].at + m.Int64N(3) - 1
		}
	case 13:
		if b := &m.key.book; len(b.ids.due) > 0 {
			m.clock = b.ids.due[m.IntN(len(b.ids.due))].until + m.Int64N(3) - 1
		}
	case 14:
		m.clock -= m.Int64N(30)
	case 15:
		m.clock -= m.Int64N(3000)
	case 16:
		if m.IntN(50) == 0 {
			m.clock += m.Int64N(200_000_000)
		}
	}
	m.clock = max(m.clock, base)
}
