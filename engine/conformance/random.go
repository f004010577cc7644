package conformance

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	holds "github.com/rlproxy/rlproxy/engine/hold/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/shard"
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

var (
	randomWindows = []int64{1, 2, 7, 50, 250, 1000, 9999, 60_000, 86_400_000, limit.MaxWindow}
	randomLimits  = []int64{1, 2, 3, 5, 12, 40, 100, 3000, 65_536, 65_537, 200_000, limit.MaxLimit}
	randomBuckets = []int64{1, 2, 3, 7, 60, 1000}
)

// randomRun sends random requests to an engine in pipelines, compares every answer with the
// model's, and checks the invariants of both.
func randomRun(t *testing.T, open Subject, steps int) {
	seed := Seed()
	t.Logf("seed %d", seed)
	requireEveryField(t, newRandomised(seed).spec)
	run := newRandomised(seed)
	e := open(t, func() int64 { return run.clock })
	var p engine.Pipeline
	var denied int
	for step := 0; step < steps; {
		if run.IntN(40) == 0 || step == 0 {
			run.narrow()
		}
		p.Reset()
		for range 1 + run.IntN(64) {
			run.request(&p, seed)
		}
		e.Do(&p)
		for i := range p.Requests {
			r, res := &p.Requests[i], &p.Results[i]
			if errors.Is(res.Err, engine.ErrStates) { // long runs may use more windows of a key than it can have
				require.Greater(t, len(run.model.inspect(string(run.known[string(r.Key)]), run.clock)), engine.MaxStates/2)
				continue
			}
			require.NoError(t, res.Err)
			if !run.check(t, r, res) {
				t.Fatalf("-seed %d, step %d, clock base+%d: %s", seed, step+i, run.clock-Base, describe(r))
			}
			if r.Op == engine.OpDecide && !res.Allowed {
				denied++
			}
		}
		step += len(p.Requests)
		for key, e := range run.entries {
			require.True(t, e.settled(t), "-seed %d, step %d, %s", seed, step, key)
		}
		clear(run.entries)
		run.pass()
	}
	t.Logf("%d steps, %d denials", steps, denied)
	require.Greater(t, denied, steps/200) // a run that draws large limits has few
	require.Less(t, denied, steps*19/20)
}

type randomised struct {
	*rand.Rand
	clock   int64
	model   *model
	again   engine.Request          // the last decision asked for
	entries map[string]*sharedEntry // of the pipeline, by the model's name of the key
	known   map[string][]byte       // by the name that engines know a key or shadow by: as the model knows it

	// The current choices of requests: few, so that many requests use the same states.
	windows, limits, buckets []int64
}

func newRandomised(seed uint64) *randomised {
	return &randomised{Rand: rand.New(rand.NewPCG(seed, 0)), clock: Base, model: newModel(), known: map[string][]byte{}, entries: map[string]*sharedEntry{}}
}

// spec returns the spec of a random request.
func (run *randomised) spec() limit.Spec {
	var p engine.Pipeline
	run.narrow()
	run.request(&p, 0)
	return p.Requests[0].Spec
}

// requireEveryField requires that drawn specs differ in each of their fields, so that no field is left out of what is
// compared with a model; only the embedded engine sets Clock.
func requireEveryField(t *testing.T, draw func() limit.Spec) {
	t.Helper()
	first, differs := reflect.ValueOf(draw()), map[string]bool{"Clock": true}
	for range 2000 {
		s := reflect.ValueOf(draw())
		for i := range s.NumField() {
			if !s.Field(i).Equal(first.Field(i)) {
				differs[s.Type().Field(i).Name] = true
			}
		}
	}
	for i := range first.NumField() {
		name := first.Type().Field(i).Name
		require.True(t, differs[name], "no random request sets limit.Spec.%s", name)
	}
}

// narrow sets new random choices for requests.
func (run *randomised) narrow() {
	some := func(n int, from []int64) []int64 {
		out := slices.Clone(from)
		run.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
		return out[:n]
	}
	run.windows = some(1+run.IntN(4), randomWindows)
	run.limits = some(1+run.IntN(4), randomLimits)
	run.buckets = some(1+run.IntN(2), randomBuckets)
}

func pick[T any](r *randomised, from []T) T { return from[r.IntN(len(from))] }

// request adds a random request to p. It often repeats the one before, because adjacent equal
// requests are answered together.
func (run *randomised) request(p *engine.Pipeline, seed uint64) {
	r := p.Add()
	if run.again.N > 0 && run.IntN(3) == 0 {
		*r = run.again
		return
	}
	r.Key, r.Shadow = run.key(seed)
	switch run.IntN(200) {
	case 0:
		r.Op = engine.OpReset
		return
	case 1, 2, 3, 4:
		r.Op = engine.OpInspect
		return
	}
	r.Kind = pick(run, holds.Kinds)
	r.N = 1
	if run.IntN(4) == 0 {
		r.N += run.IntN(min(len(run.windows), 3))
	}
	least := int64(limit.MaxLimit)
	shortest := int64(limit.MaxWindow)
	for i := 0; i < r.N; {
		w := limit.Window{Limit: pick(run, run.limits), Length: pick(run, run.windows)}
		if slices.ContainsFunc(r.Windows[:i], func(o limit.Window) bool { return o.Length == w.Length }) {
			continue
		}
		r.Windows[i] = w
		least, shortest = min(least, w.Limit), min(shortest, w.Length)
		i++
	}
	r.Param = 1
	if r.Kind == limit.Counter {
		r.Param = min(pick(run, run.buckets), shortest)
		r.Manner = run.Int64N(3) / 2
	}
	r.Cost = 1
	switch run.IntN(8) {
	case 0:
		r.Cost = 0
	case 1:
		r.Cost = 1 + run.Int64N(least)
	case 2:
		r.Cost = min(least, 1+run.Int64N(4))
	}
	run.again = *r
	run.again.Key = slices.Clone(r.Key)
}

// key chooses a key, or the shadow of one. Some of the keys end like names of shadows.
func (run *randomised) key(seed uint64) (name []byte, shadow bool) {
	key := fmt.Appendf(nil, "random-%d-%d%s", seed, run.IntN(2), pick(run, []string{"", "\xffs", "\xffk"}))
	shadow = run.IntN(2) == 0
	known := fmt.Appendf(nil, "%q, shadow %v", key, shadow)
	name = shard.AppendName(nil, key, shadow)
	if other := run.known[string(name)]; other != nil && string(other) != string(known) {
		panic(fmt.Sprintf("%s and %s have one name", known, other))
	}
	run.known[string(name)] = known
	return name, shadow
}

// pass moves the clock: usually forward by a little, sometimes to a boundary of windows, over
// an idle time, or back.
func (run *randomised) pass() {
	switch run.IntN(16) {
	case 0, 1, 2, 3, 4:
		run.clock += run.Int64N(4)
	case 5, 6, 7:
		run.clock += run.Int64N(60)
	case 8, 9:
		run.clock += run.Int64N(1500)
	case 10:
		run.clock += run.Int64N(100_000)
	case 11: // to a boundary, or one ms off
		n, w := pick(run, randomBuckets), pick(run, randomWindows[4:8])
		run.clock = ((run.clock*n/w+1)*w+n-1)/n + run.Int64N(3) - 1
	case 12:
		run.clock -= run.Int64N(30)
	case 13:
		run.clock -= run.Int64N(3000)
	case 14:
		if run.IntN(20) == 0 {
			run.clock -= run.Int64N(4_000_000)
		}
	case 15:
		if run.IntN(20) == 0 {
			run.clock += run.Int64N(2 * limit.MaxWindow / 10)
		}
	}
}

func describe(r *engine.Request) string {
	return fmt.Sprintf("%v %q %v COST %d BUCKETS %d STRICT %v", r.Kind, r.Key, r.Windows[:r.N], r.Cost, r.Param, r.Strict())
}

// check compares an answer with the model's, and checks a decision against the model's list
// of admissions.
func (run *randomised) check(t *testing.T, r *engine.Request, res *engine.Result) bool {
	m, clock, key := run.model, run.clock, string(run.known[string(r.Key)])
	modelled := *r
	modelled.Key = []byte(key)
	r = &modelled
	if e := run.entries[key]; e != nil && r.Op != engine.OpDecide {
		delete(run.entries, key)
		if !e.settled(t) {
			return false
		}
	}
	switch r.Op {
	case engine.OpReset:
		live := len(m.inspect(key, clock)) > 0
		known := m.keys[key] != nil
		delete(m.keys, key)
		// States that have expired but were not dropped yet may still be there.
		return !live && known || sameValue(t, live, res.Reset)
	case engine.OpInspect:
		want, got := sorted(m.inspect(key, clock)), sorted(res.States)
		for i := range min(len(want), len(got)) {
			// The model counts requests, an engine calls: equal requests may share one.
			want[i].Rate = min(want[i].Rate, got[i].Rate)
		}
		return sameValue(t, want, got)
	}
	now := m.now(key, clock)
	over := !m.admits(r, clock)
	want := m.do(r, clock)
	return run.together(t, r, want, res.Decision) && run.invariants(t, r, res.Decision, now, over)
}

// together compares an answer with the model's. Equal requests that are made together are charged at one moment: an engine may
// say of the first ones already when the units of the last one are forgotten. So a reset that differs must be that of a
// later one.
func (run *randomised) together(t *testing.T, r *engine.Request, want, got limit.Decision) bool {
	t.Helper()
	e := run.entries[string(r.Key)]
	if e == nil || e.spec != r.Spec {
		if e != nil && !e.settled(t) {
			return false
		}
		e = &sharedEntry{spec: r.Spec}
		run.entries[string(r.Key)] = e
	}
	e.resets = slices.DeleteFunc(e.resets, func(reset int64) bool { return reset == want.ResetAfter })
	if got.Allowed && got.ResetAfter > want.ResetAfter {
		e.resets = append(e.resets, got.ResetAfter)
		got.ResetAfter = want.ResetAfter
	}
	return sameValue(t, want, got)
}

// settled reports whether each reset was that of a later equal request.
func (e *sharedEntry) settled(t *testing.T) bool {
	t.Helper()
	if len(e.resets) > 0 {
		t.Errorf("no equal request had the resets %v", e.resets)
	}
	return len(e.resets) == 0
}

// sharedEntry has the resets of requests about one key with one spec that no later one has had yet.
type sharedEntry struct {
	spec   limit.Spec
	resets []int64
}

func sameValue(t *testing.T, want, got any) bool {
	t.Helper()
	if !reflect.DeepEqual(want, got) {
		t.Errorf("\nmodel  %+v\nengine %+v", want, got)
		return false
	}
	return true
}

// sorted sorts states and clears what only the engine can know, such as the rate of a state
// that may have expired, and been dropped, within the last 2 s.
func sorted(states []engine.Inspection) []engine.Inspection {
	out := slices.Clone(states)
	for i := range out {
		s := &out[i]
		s.Node, s.TTL, s.Shards = "", 0, nil
		if s.Kind == limit.Fixed || s.Window < 2000 {
			s.Rate = 0
		}
	}
	engine.SortInspections(out)
	return out
}

// invariants checks a decision against the model's list: never more than the limit in a
// trailing window, a denial only when used + cost exceeds a limit, and exact retry and reset
// times. over reports whether the use exceeded a limit before the decision; now is the time by
// which the windows are decided.
func (run *randomised) invariants(t *testing.T, r *engine.Request, d limit.Decision, now int64, over bool) bool {
	m, clock := run.model, run.clock
	holds := func(what string, ok bool) bool {
		if !ok {
			t.Errorf("%s does not hold: %+v", what, d)
		}
		return ok
	}
	all := holds("denied means over the limit", d.Allowed == !over)
	if d.Allowed && r.Cost > 0 && (r.Kind == limit.Slide || r.Strict()) {
		for _, w := range r.Windows[:r.N] {
			all = holds("never more than the limit", m.trailing(r, w, now) <= w.Limit) && all
		}
	}
	if !d.Allowed {
		all = holds("admitted at retry_after", d.RetryAfter >= 1 && m.admits(r, clock+d.RetryAfter)) && all
		all = holds("not before", d.RetryAfter == 1 || !m.admits(r, clock+d.RetryAfter-1)) && all
	}
	return all
}
