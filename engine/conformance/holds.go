package conformance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	holds "github.com/rlproxy/rlproxy/engine/hold/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// RunHolds checks RL.RESERVE, RL.SETTLE, RL.ACQUIRE, RL.RENEW, RL.RELEASE and ONCE of an engine, by the transcripts and by
// a number of random requests.
func RunHolds(t *testing.T, open Subject, random int) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "holds/*.txt") })
	t.Run("random", func(t *testing.T) { randomHolds(t, open, Soak(t, random)) })
	t.Run("windows", func(t *testing.T) { boundedWindows(t, open) })
	t.Run("algorithms", func(t *testing.T) { everyAlgorithm(t, open) })
	t.Run("deadlines", func(t *testing.T) { manyDeadlines(t, open) })
}

// everyAlgorithm has the same conversation about each kind with windows, also about those that no model knows.
func everyAlgorithm(t *testing.T, open Subject) {
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	for _, kind := range Kinds(limit.Kind.Windowed) {
		t.Run(kind.String(), func(t *testing.T) {
			key := "every " + kind.String()
			ask := func(cost int64, h *engine.Hold) engine.Result {
				r := Request(kind, key, 10, 60_000)
				r.Cost, r.Hold = cost, h
				res := Ask(e, r)
				require.NoError(t, res.Err)
				require.Equal(t, engine.FailDefault, res.Fail)
				return res
			}
			once := &engine.Hold{ID: engine.DigestOf([]byte("once")), Once: true}
			first, again := ask(2, once), ask(2, once)
			require.True(t, first.Allowed && !first.Again && again.Again)
			require.Equal(t, first.Decision, again.Decision)
			require.True(t, ask(4, &engine.Hold{ID: engine.DigestOf([]byte("held")), TTL: 1000, Release: true}).Allowed)
			require.EqualValues(t, 4, ask(0, nil).Remaining)
			settled := Ask(e, Settle(key, kind, "held", 3)).Settled
			require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Returned: 1}, settled)
			denied := ask(6, nil)
			require.False(t, denied.Allowed)
			require.EqualValues(t, 5, denied.Remaining)
			clock += denied.RetryAfter - 1
			require.False(t, ask(6, nil).Allowed)
			clock++
			require.True(t, ask(6, nil).Allowed)
			clock += ask(0, nil).RetryAfter // of a request of cost 1
			require.True(t, ask(1, &engine.Hold{ID: engine.DigestOf([]byte("lapses")), TTL: 1, Release: true}).Allowed)
			clock += ask(0, nil).ResetAfter
			require.EqualValues(t, 10, ask(0, nil).Remaining)
		})
	}
}

// boundedWindows checks that an engine counts the charged and the held windows of a key together.
func boundedWindows(t *testing.T, open Subject) {
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	ask := func(key string, held bool, window int64) error {
		r := Slide(key, 10, window, 1)
		if held {
			r.Hold = &engine.Hold{ID: engine.DigestOf(fmt.Append(nil, window)), TTL: 30_000}
		}
		return Ask(e, r).Err
	}
	// Of the two windows of a request, one is too many, although the second one has a state, which has expired.
	for _, hold := range []bool{false, true} {
		key := fmt.Sprint("revived-", hold)
		require.NoError(t, ask(key, false, 1))
		for i := range int64(engine.MaxStates) - 1 {
			require.NoError(t, ask(key, false, 60_000+i))
		}
		clock += 500
		both := Slide(key, 10, 50_000, 1)
		both.N, both.Windows[1] = 2, limit.Window{Limit: 10, Length: 1}
		if hold {
			both.Hold = &engine.Hold{ID: engine.DigestOf([]byte("both")), TTL: 30_000}
		}
		require.ErrorContains(t, Ask(e, both).Err, engine.ErrStates.Error(), key)
		require.Len(t, Ask(e, Inspect(key)).States, engine.MaxStates-1)
	}
	for held := range 4 { // of three windows
		key := fmt.Sprint("windows-", held)
		for i := range int64(engine.MaxStates) {
			require.NoError(t, ask(key, i%3 < int64(held), 60_000+i))
		}
		for _, hold := range []bool{false, true} {
			require.ErrorContains(t, ask(key, hold, 50_000), engine.ErrStates.Error(), "%s, held: %v", key, hold)
			require.NoError(t, ask(key, hold, 60_000), "%s, held: %v", key, hold)
		}
	}
}

// randomHolds sends random requests to an engine in pipelines, and compares every answer with that of the model.
func randomHolds(t *testing.T, open Subject, steps int) {
	other, _ := newRandomHold()
	requireEveryField(t, func() limit.Spec {
		other.narrow()
		return other.request(0).Spec
	})
	run, seed := newRandomHold()
	e := open(t, func() int64 { return run.clock })
	var p engine.Pipeline
	for step := 0; step < steps; {
		if run.windows == nil || run.IntN(20) == 0 {
			run.narrow()
		}
		p.Reset()
		for range 1 + run.IntN(12) {
			*p.Add() = run.request(seed)
		}
		e.Do(&p)
		for i := range p.Requests {
			if wrong := run.compare(&p.Requests[i], &p.Results[i]); wrong != "" {
				t.Fatalf("-seed %d, step %d, clock base+%d: %s", seed, step+i, run.clock-Base, wrong)
			}
		}
		step += len(p.Requests)
		run.pass()
	}
	t.Logf("seed %d, %d steps: %v", seed, steps, run.seen)
	for _, what := range []string{"held", "charged", "denied", "again", "lapsed", "settled", "not settled", "renewed", "not renewed"} {
		require.Positive(t, run.seen[what], what)
	}
}

// RunAlike sends random requests, with ids and without, to two engines, and checks that RL.INSPECT shows the same on both.
func RunAlike(t *testing.T, open, other Subject, random int) {
	run, seed := newRandomHold()
	clock := func() int64 { return run.clock }
	one, two := open(t, clock), other(t, clock)
	for step := range Soak(t, random) {
		if step%200 == 0 {
			run.narrow()
		}
		r := run.request(seed)
		res := Ask(one, r)
		Ask(two, r)
		require.Empty(t, run.compare(&r, &res), "-seed %d, step %d", seed, step)
		inspect := Inspect(string(r.Key))
		want, got := shown(Ask(one, inspect).States), shown(Ask(two, inspect).States)
		require.Equal(t, want, got, "-seed %d, step %d, clock base+%d: %s %+v", seed, step, run.clock-Base, describe(&r), r.Hold)
		if step%4 == 0 {
			run.pass()
		}
	}
	t.Logf("seed %d: %v", seed, run.seen)
}

// shown returns the states in the order of RL.INSPECT without what may differ between engines: the node, and the rate of a
// state that may have expired, and been dropped, within the last 2 s.
func shown(states []engine.Inspection) []engine.Inspection {
	for i := range states {
		s := &states[i]
		s.Node = ""
		if s.Kind == limit.Fixed || s.Kind != limit.Concurrency && s.Window < 2000 {
			s.Rate = 0
		}
	}
	return states
}

type randomHold struct {
	*rand.Rand
	clock int64
	keys  map[string]*holds.Key
	sent  []engine.Request // decisions with an id, to be settled and repeated
	seen  map[string]int
	first map[string]int64 // reset_after of the first answer to an id, which is not always compared

	windows, limits []int64 // what requests choose from at present
	ttls            []int64 // bounds of TTLs
}

func newRandomHold() (run *randomHold, seed uint64) {
	seed = Seed()
	return &randomHold{
		Rand: rand.New(rand.NewPCG(seed, 1)), clock: Base, keys: map[string]*holds.Key{}, seen: map[string]int{},
		first: map[string]int64{}, ttls: []int64{20, 1000, 100_000, 100_000, 10_000_000},
	}, seed
}

func (run *randomHold) narrow() {
	run.windows, run.limits = nil, nil
	for range 2 {
		run.windows = append(run.windows, among[int64](run, 1, 50, 1000, 7777, 60_000, 86_400_000))
		run.limits = append(run.limits, among[int64](run, 1, 3, 12, 100, 65_536, 70_000, limit.MaxLimit))
	}
}

func among[T any](run *randomHold, from ...T) T { return from[run.IntN(len(from))] }

// request returns a random request for one of two keys.
func (run *randomHold) request(seed uint64) engine.Request {
	key := fmt.Sprintf("holds-%d-%d", seed, run.IntN(2))
	id := fmt.Sprint("id", run.IntN(10))
	ttl := 1 + run.Int64N(among(run, run.ttls...))
	kind := among(run, append([]limit.Kind{limit.Slide, limit.Slide}, holds.Kinds...)...)
	n := run.IntN(100)
	switch {
	case n < 25 && len(run.sent) > 0: // settles are of what was reserved, mostly
		sent := run.sent[run.IntN(len(run.sent))]
		r := Settle(string(sent.Key), sent.Kind, "", among(run, 0, sent.Cost, sent.Cost, sent.Cost/2, sent.Cost+run.Int64N(3)))
		r.Hold.ID = sent.Hold.ID
		if r.Kind == limit.Concurrency {
			r.Cost = 0
		}
		return r
	case n < 35 && len(run.sent) > 0:
		return run.sent[run.IntN(len(run.sent))]
	case n < 40:
		return Renew(key, id, ttl)
	case n < 44:
		return Inspect(key)
	case n < 45:
		return Reset(key)
	}
	r := engine.Request{Key: []byte(key), Spec: limit.Spec{Kind: kind, Param: 1, Cost: 1}}
	for r.N < 1+run.IntN(2) {
		w := limit.Window{Limit: among(run, run.limits...), Length: among(run, run.windows...)}
		if !slices.ContainsFunc(r.Limits(), func(o limit.Window) bool { return o.Length == w.Length }) {
			r.Windows[r.N] = w
			r.N++
		}
	}
	if kind == limit.Counter {
		r.Manner = run.Int64N(2)
		r.Param = among[int64](run, 1, 1, 2, 7, 60)
		for _, w := range r.Limits() {
			r.Param = min(r.Param, w.Length)
		}
	}
	switch run.IntN(8) {
	case 0:
		r.Cost = 1 + run.Int64N(r.Smallest())
	case 1, 2:
		r.Cost = min(r.Smallest(), 1+run.Int64N(4))
	case 3:
		r.Cost = 0
	}
	if n < 60 {
		return r
	}
	r.Hold = &engine.Hold{ID: engine.DigestOf([]byte(id)), TTL: ttl, Release: run.IntN(2) == 0}
	switch {
	case n < 70:
		r.Hold = &engine.Hold{ID: r.Hold.ID, Once: true}
	case n < 80:
		r.Kind, r.Manner, r.Param, r.N, r.Windows[1] = limit.Concurrency, 0, 1, 1, limit.Window{}
		r.Windows[0].Length, r.Hold.Release = 0, true
		r.Cost = min(r.Cost, r.Windows[0].Limit)
	}
	if len(run.sent) > 16 {
		run.sent = slices.Delete(run.sent, 0, 8)
	}
	run.sent = append(run.sent, r)
	return r
}

// compare gives a request to the model, and returns how its answer differs.
func (run *randomHold) compare(r *engine.Request, res *engine.Result) string {
	key := string(r.Key)
	k := run.keys[key]
	if k == nil {
		k = holds.New()
		run.keys[key] = k
	}
	differs := func(want, got any) string {
		return fmt.Sprintf("%v %v COST %d BUCKETS %d STRICT %v %+v\nmodel  %+v\nengine %+v %v", r.Kind, r.Limits(), r.Cost, r.Param, r.Strict(), r.Hold, want, got, res.Err)
	}
	count := func(is bool, yes, no string) {
		if is {
			run.seen[yes]++
		} else {
			run.seen[no]++
		}
	}
	switch r.Op {
	case engine.OpReset:
		live := k.Live(run.clock)
		delete(run.keys, key)
		if res.Err != nil || live && !res.Reset { // expired states may still be there
			return differs(live, res.Reset)
		}
		return ""
	case engine.OpInspect:
		want, got := counting(k.Inspect(run.clock)), counting(res.States)
		if fmt.Sprint(want) != fmt.Sprint(got) || res.Err != nil {
			return differs(want, got)
		}
		return ""
	case engine.OpSettle:
		want, lapsed, err := k.Settle(run.clock, r.Kind, r.Hold.ID, r.Cost)
		count(want.Settled, "settled", "not settled")
		if want != res.Settled || err != res.Err || lapsed != res.Lapsed { //nolint:errorlint // both are the constant
			return differs(fmt.Sprintf("%+v %d %v", want, lapsed, err), fmt.Sprintf("%+v %d", res.Settled, res.Lapsed))
		}
		return ""
	case engine.OpRenew:
		want, lapsed := k.Renew(run.clock, r.Hold.ID, r.Hold.TTL)
		count(want, "renewed", "not renewed")
		if want != res.Renewed || lapsed != res.Lapsed || res.Err != nil {
			return differs(fmt.Sprint(want, lapsed), fmt.Sprint(res.Renewed, res.Lapsed))
		}
		return ""
	}
	return run.decision(k, r, res, differs)
}

// counting returns the compared fields of the states with units that count. An engine may show other states until the next write.
func counting(states []engine.Inspection) (out []engine.Inspection) {
	for _, s := range states {
		if s.Used > 0 || s.Held > 0 {
			out = append(out, engine.Inspection{Kind: s.Kind, Window: s.Window, Param: s.Param, Used: s.Used, Held: s.Held, Holds: s.Holds})
		}
	}
	return out
}

func (run *randomHold) decision(k *holds.Key, r *engine.Request, res *engine.Result, differs func(want, got any) string) string {
	withID := r.Hold != nil && r.Cost > 0
	inexact := (r.Kind == limit.Counter || r.Kind == limit.Fixed) && (k.Uses(&r.Spec) || r.Hold != nil)
	want := k.Decide(run.clock, &r.Spec, r.Hold)
	got := holds.Answer{Decision: res.Decision, Again: res.Again, Lapsed: res.Lapsed}
	if !withID {
		got.Lapsed = want.Lapsed // only requests with an id tell
	}
	if inexact && want.ResetAfter > 0 && got.ResetAfter > 0 {
		want.ResetAfter = got.ResetAfter
	}
	if withID && r.Kind != limit.Concurrency && got.Allowed {
		id := fmt.Sprintf("%s %v %x", r.Key, r.Hold.Once, r.Hold.ID)
		if want.Again {
			want.ResetAfter, want.Window = run.first[id], got.Window
		} else {
			run.first[id] = got.ResetAfter
		}
	}
	switch {
	case want.Again:
		run.seen["again"]++
	case want.Allowed && withID && !r.Hold.Once:
		run.seen["held"]++
	case want.Allowed:
		run.seen["charged"]++
	default:
		run.seen["denied"]++
	}
	if want.Lapsed > 0 {
		run.seen["lapsed"]++
	}
	if want != got || res.Err != nil {
		return differs(fmt.Sprintf("%+v", want), fmt.Sprintf("%+v", got))
	}
	if over := k.Excess(run.clock); over > 0 {
		return fmt.Sprintf("%d units above the limit are charged or held", over)
	}
	return ""
}

// pass moves the clock: usually forward by a little, sometimes back, but not to before the newest change of an id.
func (run *randomHold) pass() {
	defer func() {
		for _, k := range run.keys {
			run.clock = max(run.clock, k.Changed())
		}
	}()
	switch run.IntN(16) {
	case 0, 1, 2:
		run.clock += run.Int64N(4)
	case 3, 4:
		run.clock += run.Int64N(60)
	case 5, 6:
		run.clock += run.Int64N(1500)
	case 7, 8:
		run.clock += run.Int64N(30_000)
	case 9:
		run.clock -= run.Int64N(30)
	case 10:
		run.clock = max(run.clock-run.Int64N(3000), Base)
	case 11:
		if run.IntN(20) == 0 {
			run.clock += run.Int64N(200_000_000)
		}
	}
}
