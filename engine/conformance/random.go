package conformance

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Base is where the clocks of these tests start, in ms: 2100-01-01, the start of
// every window whose length divides a day.
const Base = 4102444800000

// At makes a time.Now of a clock in ms.
func At(clock func() int64) func() time.Time {
	return func() time.Time { return time.UnixMilli(clock()) }
}

var randomSeed = flag.Uint64("seed", 0, "repeat a random run; 0: a new one")

// Seed returns the seed of a random run: that of the flag, or a new one.
func Seed() uint64 {
	if *randomSeed != 0 {
		return *randomSeed
	}
	return uint64(time.Now().UnixNano())
}

// history is random requests to an engine, and a model of each key that they are about.
type history struct {
	*Lines
	seed  uint64
	us    int64 // the clock
	keys  map[string]*model.Key
	seen  map[string]int
	first map[string]int64   // reset_after of the first answer to an id, which is not always compared
	spent map[string][]spent // by key, if units may be advanced: an account removes holds that have lapsed, and says nothing
	held  map[string]int64   // units that an id may hold of an algorithm for which no command reserves

	commands []string // of lines; several times for some that are more frequent
	ids      bool     // some requests have ids; the clock does not step back behind their newest change
	inexact  bool     // of multi-key requests: see RunJoint
	expires  bool     // an engine forgets keys as soon as nothing of them matters
}

// newHistory begins a history about some keys.
func newHistory(keys int, without ...string) *history {
	h := &history{
		seed: Seed(), us: Base * 1000, keys: map[string]*model.Key{}, seen: map[string]int{}, first: map[string]int64{}, held: map[string]int64{},
		commands: slices.Concat(slices.Repeat(Decisions, 10), []string{"RL.INSPECT", "RL.RESET"}),
	}
	h.Lines = &Lines{Rand: rand.New(rand.NewPCG(h.seed, 1)), Without: append(without, "SHARDS", "CONN")}
	for i := range keys {
		h.Keys = append(h.Keys, fmt.Sprintf("random-%d-%d%s", h.seed, i, []string{"", "\xffs", "\xffk"}[i%3])) // as shadows end
	}
	return h
}

// clock returns the clock of an engine, in ms.
func (h *history) clock() int64 { return h.us / 1000 }

// run sends requests in pipelines of up to so many, and compares every answer with the model's.
func (h *history) run(t *testing.T, e engine.Engine, steps, together int, pass func()) {
	t.Logf("seed %d", h.seed)
	var p engine.Pipeline
	for step := 0; step < steps; step += len(p.Requests) {
		if h.IntN(20) == 0 {
			h.Narrow()
		}
		p.Reset()
		for range 1 + h.IntN(together) {
			h.request(&p)
		}
		e.Do(&p)
		if wrong := h.compare(&p); wrong != "" {
			t.Fatalf("-seed %d, step %d, clock base+%d us: %s", h.seed, step, h.us-Base*1000, wrong)
		}
		pass()
	}
	t.Logf("%d steps: %v", steps, h.seen)
	for _, name := range Decisions {
		require.Positive(t, h.seen[name+" admitted"], name)
		if steps >= 20_000 { // shorter runs may draw large limits of an algorithm only
			require.Positive(t, h.seen[name+" denied"], name)
		}
	}
}

// request adds a random request. It often repeats the one before, because adjacent equal requests are answered together.
func (h *history) request(p *engine.Pipeline) {
	n := len(p.Requests)
	switch h.IntN(6) {
	case 0, 1:
		h.Again(p, true)
	case 2:
		h.Again(p, false)
	}
	for len(p.Requests) == n {
		h.Add(p, h.commands...)
		if r := &p.Requests[n]; r.Kind.Rated() && float64(r.Windows[0].Limit)*float64(r.Manner) > 1<<53 {
			p.Truncate(n) // ns that nodes round
			h.last = h.last[:len(h.last)-1]
		}
	}
	for i := n; i < len(p.Requests); i++ {
		r := &p.Requests[i]
		if r.Kind.Rated() { // engines differ in what of the key its charges remove that has ended
			r.Key = append(slices.Clone(r.Key), "rate"...)
		}
		h.hold(r)
	}
}

// hold has some requests with ONCE hold their units, as RL.HOLD does with some algorithms and a multi-key request with
// any. It settles with as many at most what only the latter holds.
func (h *history) hold(r *engine.Request) {
	if r.Hold == nil {
		return
	}
	id := fmt.Sprintf("%s %x", r.Key, r.Hold.ID)
	if r.Hold.Once && h.IntN(2) == 0 {
		r.Hold = &engine.Hold{ID: r.Hold.ID, TTL: h.Choice("TTL"), Release: h.IntN(2) == 0}
	}
	most, known := h.held[id]
	switch {
	case r.Op == engine.OpSettle && known:
		r.Cost = min(r.Cost, most)
	case r.Op == engine.OpDecide && !r.Kind.Additive():
		if !known || r.Cost < most {
			h.held[id] = r.Cost
		}
	}
}

// pass moves the clock: usually forward by a little, sometimes to a boundary of windows, over an idle time, or back.
func (h *history) pass() {
	move := func(ms int64) { h.us += ms * 1000 }
	switch h.IntN(16) {
	case 0, 1, 2, 3, 4:
		move(h.Int64N(4))
	case 5, 6, 7:
		move(h.Int64N(60))
	case 8, 9:
		move(h.Int64N(1500))
	case 10:
		move(h.Int64N(100_000))
	case 11: // to a boundary, or one ms off
		n, w := h.Choice("BUCKETS"), h.Choice("window")
		if h.IntN(6) == 0 { // a midnight, or an hour before one
			const day, hour = 86_400_000, 3_600_000
			h.us = ((h.clock()/day+1)*day - h.Int64N(2)*hour + h.Int64N(3) - 1) * 1000
		} else if n < 1000 && w < 1_000_000 {
			h.us = (((h.clock()*n/w+1)*w+n-1)/n + h.Int64N(3) - 1) * 1000
		}
	case 12:
		move(-h.Int64N(30))
	case 13:
		move(-h.Int64N(3000))
	case 14:
		if h.IntN(20) == 0 {
			move(-h.Int64N(4_000_000))
		}
	case 15:
		if h.IntN(20) == 0 {
			move(h.Int64N(2 * limit.MaxWindow / 10))
		}
	}
	for k := range maps.Values(h.keys) {
		h.us = max(h.us, k.Changed()*1000)
	}
}

// randomRun sends random requests to an engine, without ids.
func randomRun(t *testing.T, open Subject, steps int) {
	h := newHistory(6, "ONCE", "AND")
	requireEveryField(t, newHistory(6, "ONCE", "AND").Lines)
	h.run(t, open(t, h.clock), steps, 64, h.pass)
}

// requireEveryField requires that lines differ in each field of their specs, so that no field is left out of what is
// compared with a model; only the embedded engine sets Clock.
func requireEveryField(t *testing.T, l *Lines) {
	t.Helper()
	draw := func() reflect.Value {
		var p engine.Pipeline
		l.Narrow()
		l.Add(&p, Decisions...)
		return reflect.ValueOf(p.Requests[0].Spec)
	}
	first, seen := draw(), map[string]bool{"Clock": true}
	for range 2000 {
		s := draw()
		for i := range s.NumField() {
			if !s.Field(i).Equal(first.Field(i)) {
				seen[s.Type().Field(i).Name] = true
			}
		}
	}
	for i := range first.NumField() {
		name := first.Type().Field(i).Name
		require.True(t, seen[name], "no random request sets limit.Spec.%s", name)
	}
}
