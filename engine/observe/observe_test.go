package observe

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// The commands that these tests use, apart from Reserve.
const (
	Slide    = Command(limit.Slide)
	Counter  = Command(limit.Counter)
	Fixed    = Command(limit.Fixed)
	Throttle = Command(limit.GCRA)
	Acquire  = Command(limit.Concurrency)
)

// decided returns a pipeline with the given results, one request of RL.SLIDE each.
func decided(results ...engine.Result) *engine.Pipeline {
	p := &engine.Pipeline{Results: results, Requests: make([]engine.Request, len(results))}
	for i := range p.Requests {
		p.Requests[i].Key, p.Requests[i].Kind = []byte("key"), limit.Slide
	}
	return p
}

var (
	allowed = engine.Result{Decision: limit.Decision{Allowed: true}}
	denied  = engine.Result{}
)

// policy returns the result of a request that a policy answered.
func policy(p engine.FailPolicy) engine.Result {
	res := engine.Result{Fail: p}
	res.Allowed = p == engine.FailOpen || p == engine.FailLocal
	if p == engine.FailError {
		res.Err = errors.New("UNAVAILABLE")
	}
	return res
}

func TestEveryDecisionHasOneOutcome(t *testing.T) {
	t.Parallel()
	results := []engine.Result{
		Allowed: allowed, Denied: denied, Remembered: {Remembered: true}, FailOpen: policy(engine.FailOpen),
		FailClosed: policy(engine.FailClosed), FailLocal: policy(engine.FailLocal), FailError: policy(engine.FailError),
		Error: {Err: errors.New("ERR")}, ShadowAllowed: allowed, ShadowDenied: denied, ShadowFail: policy(engine.FailError),
		Repeated: {Decision: limit.Decision{Allowed: true}, Again: true}, DeniedOther: denied,
		Drawn: {Decision: limit.Decision{Allowed: true}, Drawn: true}, DeniedLocally: {Fail: engine.FailLocal},
	}
	require.Len(t, results, Outcomes)
	o := New(Config{})
	for out := range results {
		for range out + 1 {
			p := decided(results[out])
			p.Requests[0].Shadow = ShadowAllowed <= Outcome(out) && Outcome(out) <= ShadowFail
			if Outcome(out) == DeniedOther {
				p.Requests[0].KeyNumber = 2
			}
			o.Observe(p, time.Now(), time.Millisecond, Sender{})
		}
	}
	names := make(map[string]bool)
	for out := range Outcomes {
		require.EqualValues(t, out+1, o.counts.Of(Slide, Outcome(out)), Outcome(out))
		require.Zero(t, o.counts.Of(Counter, Outcome(out)))
		names[Outcome(out).String()] = true
	}
	require.Len(t, names, Outcomes, "two outcomes have one name")
}

// Requests with SHADOW are never denied, whatever answered them, but an error is still an error.
func TestShadowsAreCountedApart(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	for _, res := range []engine.Result{
		denied, {Remembered: true}, allowed, policy(engine.FailOpen), policy(engine.FailClosed), policy(engine.FailLocal), {Err: errors.New("ERR")},
	} {
		p := decided(res)
		p.Requests[0].Shadow = true
		o.Observe(p, time.Now(), time.Millisecond, Sender{})
		p.Requests[0].Policy = "trial"
		o.Observe(p, time.Now(), time.Millisecond, Sender{})
	}
	var got [Outcomes]int64
	for out := range got {
		got[out] = o.counts.Of(Slide, Outcome(out))
	}
	require.Equal(t, [Outcomes]int64{ShadowDenied: 2, ShadowAllowed: 1, ShadowFail: 3, Error: 1}, got)
	require.Equal(t, engine.Stat{Name: "shadow_denied", Value: 4}, o.Stats()[0], "with those by policy")
}

func TestPipelinesAreCountedDecisionByDecision(t *testing.T) {
	t.Parallel()
	p := decided(allowed, allowed, denied, allowed, denied, denied)
	p.Requests[3].Kind, p.Requests[4].Kind = limit.GCRA, limit.GCRA
	p.Requests[5].Op = engine.OpReset
	o := New(Config{})
	o.Observe(p, time.Now(), 3*time.Millisecond, Sender{})
	require.EqualValues(t, 2, o.counts.Of(Slide, Allowed))
	require.EqualValues(t, 1, o.counts.Of(Slide, Denied))
	require.EqualValues(t, 1, o.counts.Of(Throttle, Allowed))
	require.EqualValues(t, 1, o.counts.Of(Throttle, Denied))
	slide := o.Durations(Slide).Snapshot()
	require.EqualValues(t, 3, slide.Count)
	require.Equal(t, 9*time.Millisecond, slide.Sum)
	o.Observe(decided(), time.Now(), time.Hour, Sender{})
	require.EqualValues(t, 3, o.Durations(Slide).Snapshot().Count)
}

func TestOverridesCountWhatTheyDecide(t *testing.T) {
	o := New(Config{})
	var one, two engine.OverrideCounts
	var p engine.Pipeline
	var results []engine.Result
	add := func(n int, of *engine.OverrideCounts, shadow bool, res engine.Result) {
		for range n {
			r := p.Add()
			r.Key, r.Kind, r.Policy, r.Override, r.Shadow = []byte("api:k"), limit.Slide, "api", of, shadow
			results = append(results, res)
		}
	}
	add(2, &one, false, engine.Result{Decision: limit.Decision{Allowed: true}})
	add(3, &two, false, engine.Result{Decision: limit.Decision{Allowed: true}})
	add(4, nil, false, engine.Result{})
	add(5, &one, false, engine.Result{})
	add(6, &one, false, engine.Result{Fail: engine.FailClosed})
	add(7, &one, false, engine.Result{Fail: engine.FailLocal})
	add(8, &one, false, engine.Result{Fail: engine.FailOpen, Decision: limit.Decision{Allowed: true}})
	add(9, &two, true, engine.Result{})
	add(10, &two, false, engine.Result{Err: engine.ErrStates})
	p.Results = results
	o.Observe(&p, time.Now(), 0, Sender{})
	require.Equal(t, []int64{28, 18, 3, 0}, []int64{one.Decisions.Load(), one.TurnedAway.Load(), two.Decisions.Load(), two.TurnedAway.Load()})
}

// A request with an id is counted under its own command.
func TestReservationsAndLeasesHaveCountsOfTheirOwn(t *testing.T) {
	t.Parallel()
	o := New(Config{})
	p := decided(allowed, allowed, denied, allowed)
	p.Requests[1].Hold = &engine.Hold{TTL: 1000}
	p.Requests[2].Hold, p.Requests[2].Kind = &engine.Hold{TTL: 1000}, limit.Concurrency
	p.Requests[3].Hold = &engine.Hold{Once: true}
	o.Observe(p, time.Now(), time.Millisecond, Sender{})
	require.EqualValues(t, 2, o.counts.Of(Slide, Allowed), "one of them with ONCE")
	require.EqualValues(t, 1, o.counts.Of(Reserve, Allowed))
	require.EqualValues(t, 1, o.counts.Of(Acquire, Denied))
	for by, n := range map[Command]int64{Slide: 2, Reserve: 1, Acquire: 1} {
		require.Equal(t, n, o.Durations(by).Snapshot().Count, by)
	}
	names := make(map[string]bool)
	for _, by := range Commands {
		names[by.String()] = true
	}
	require.Len(t, names, len(Commands), "two commands have one name")
	require.NotContains(t, names, "unknown")
	require.False(t, limit.Kind(Reserve).Known(), "two commands have one number")
}

// In a denied multi-key request, a key that had room is not counted as denied by its state.
func TestAKeyWithRoomIsNotDenied(t *testing.T) {
	t.Parallel()
	full := engine.Result{Decision: limit.Decision{RetryAfter: 5}}
	require.Equal(t, DeniedOther, OutcomeOf(&engine.Request{KeyNumber: 1}, &denied))
	require.Equal(t, Denied, OutcomeOf(&engine.Request{KeyNumber: 1}, &full))
	require.Equal(t, Denied, OutcomeOf(&engine.Request{}, &denied))
}

// recorder keeps what it was given.
type recorder struct {
	decisions int
	from      Sender
}

func (r *recorder) Record(p *engine.Pipeline, from Sender) {
	r.decisions += len(p.Requests)
	r.from = from
}

func TestTheRecorderGetsEveryPipeline(t *testing.T) {
	t.Parallel()
	var r recorder
	o := New(Config{Recorder: &r})
	o.Observe(decided(allowed, denied), time.Now(), 0, Sender{Name: "web"})
	require.Equal(t, recorder{2, Sender{Name: "web"}}, r)
}

func TestObserveDoesNotAllocate(t *testing.T) {
	o := New(Config{})
	p := decided(allowed, allowed, denied)
	sent := time.Now()
	require.Zero(t, testing.AllocsPerRun(1000, func() { o.Observe(p, sent, time.Millisecond, Sender{}) }))
	p.Requests[1].Policy, p.Requests[2].Policy = "api", "login"
	require.Zero(t, testing.AllocsPerRun(1000, func() { o.Observe(p, sent, time.Millisecond, Sender{}) }))
}

func BenchmarkObserve(b *testing.B) {
	benchmark(b, func(o *Observer, p *engine.Pipeline, sent time.Time) { o.Observe(p, sent, time.Millisecond, Sender{}) })
}

// BenchmarkCount measures the counters alone, without the busiest keys.
func BenchmarkCount(b *testing.B) {
	benchmark(b, func(o *Observer, p *engine.Pipeline, _ time.Time) { o.count(p, time.Millisecond) })
}

// benchmark measures what an Observer does about a pipeline: with limits of the commands, of
// a policy, and of as many policies as there are requests.
func benchmark(b *testing.B, do func(*Observer, *engine.Pipeline, time.Time)) {
	b.Helper()
	for _, n := range []int{1, 16} {
		for _, policies := range slices.Compact([]int{0, 1, n}) {
			b.Run(fmt.Sprintf("pipeline of %d, %d policies", n, policies), func(b *testing.B) {
				o := New(Config{})
				for i := range 1000 { // which the policy is looked up among
					o.policies.of(fmt.Sprint("policy", i))
				}
				p := decided(slices.Repeat([]engine.Result{allowed}, n)...)
				for i := range p.Requests {
					if policies > 0 {
						p.Requests[i].Policy = fmt.Sprint("policy", i%policies)
					}
				}
				sent := time.Now()
				b.ReportAllocs()
				for b.Loop() {
					do(o, p, sent)
				}
			})
		}
	}
}
