package redis

import (
	"math/rand/v2"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/resets"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// functionCalls returns how many functions a node has run.
func functionCalls(t *testing.T, s *redistest.Server) int {
	t.Helper()
	m := regexp.MustCompile(`cmdstat_fcall:calls=(\d+)`).FindStringSubmatch(s.Client.Info(t.Context(), "commandstats").Val())
	require.NotNil(t, m)
	n, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	return n
}

// A denial from memory equals the one that the node would give at the same ms, at any point of its
// window.
func TestRememberedDenialIsTheNodes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const nodeAhead = 9_123_457 // ms
	now := time.Now().Add(200 * 24 * time.Hour)
	clock := func() int64 { return now.UnixMilli() + nodeAhead }
	truth := openAt(t, clock, s)
	e := openAt(t, clock, s)
	e.remember = true
	e.now, e.began = func() time.Time { return now }, now

	rng := rand.New(rand.NewPCG(3, 4)) // #nosec G404 -- a test's choices
	remembered := int64(0)
	for _, kind := range conformance.Kinds(limit.Kind.Windowed) {
		r := conformance.Request(kind, kind.String(), 20, 700)
		if kind == limit.Counter {
			r.Param = 7
		}
		for range 4000 {
			asked := r
			asked.Cost = 0
			want := conformance.Ask(truth, asked)
			got := conformance.Ask(e, r)
			require.NoError(t, got.Err)
			require.Equal(t, want.Allowed, got.Allowed)
			require.Equal(t, want.RetryAfter, got.RetryAfter)
			if !got.Allowed {
				require.Equal(t, want.ResetAfter, got.ResetAfter)
			}
			now = now.Add(time.Duration(rng.IntN(12)) * time.Millisecond)
		}
		require.Greater(t, e.denials.Answers(), remembered+1000, "%s: few denials came from memory", kind)
		remembered = e.denials.Answers()
	}
}

// The same is true of CL.THROTTLE: a key that may be answered from memory gets the same answers as a
// twin that the node always answers, also after a reset and with another rate, and both have the same
// state at the end.
func TestRememberedDenialOfARateIsTheNodes(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	const nodeBehind = 1_234_567 // ms
	now := time.Now().Add(200 * 24 * time.Hour)
	clock := func() int64 { return now.UnixMilli() - nodeBehind }
	truth, e := openAt(t, clock, s), openAt(t, clock, s)
	e.remember = true
	e.now, e.began = func() time.Time { return now }, now

	rng := rand.New(rand.NewPCG(5, 6)) // #nosec G404 -- a test's choices
	ask := func(r engine.Request) engine.Result {
		r.Key = []byte("twin")
		want := conformance.Ask(truth, r)
		r.Key = []byte("k")
		got := conformance.Ask(e, r)
		require.NoError(t, got.Err)
		require.Equal(t, want.Decision, got.Decision)
		return got
	}
	denied, admitted := 0, 0
	for range 6000 {
		r := conformance.Throttle("", 19, 29, 1, 1) // a unit in 34.48 ms
		switch rng.IntN(200) {
		case 0:
			ask(conformance.Reset(""))
		case 1:
			r = conformance.Throttle("", 20, 29, 1, 1)
		case 2:
			r = conformance.Throttle("", 19, 31, 1, 1)
		}
		if ask(r).Allowed {
			admitted++
		} else {
			denied++
		}
		now = now.Add(time.Duration(rng.IntN(12)) * time.Millisecond)
	}
	require.Greater(t, admitted, 500)
	require.Greater(t, e.denials.Answers(), int64(denied/2), "few of %d denials came from memory", denied)
	require.Less(t, e.denials.Answers(), int64(denied))
	key, twin := conformance.Ask(e, conformance.Inspect("k")), conformance.Ask(truth, conformance.Inspect("twin"))
	require.Len(t, key.States, 1)
	require.Equal(t, twin.States[0].Used, key.States[0].Used)
}

func TestDeniedTenantCostsItsNodeLittle(t *testing.T) {
	s := redistest.Start(t)
	e := openAt(t, nil, s)
	for _, r := range []engine.Request{conformance.Slide("k", 1, 3_600_000, 1), conformance.Throttle("k", 0, 1, 3600, 1)} {
		require.True(t, conformance.Ask(e, r).Allowed)
		before, began := functionCalls(t, s), time.Now()
		for range 20_000 {
			require.False(t, conformance.Ask(e, r).Allowed)
		}
		seconds := int(time.Since(began)/time.Second) + 1
		require.LessOrEqual(t, functionCalls(t, s)-before, 2*seconds, r.Kind)
	}
}

// After COST 0 or RL.INSPECT has said that there is room, the request is admitted: what the node says is true,
// although its clock has stepped forward and the denial would have been repeated for a second. The same is true within
// a pipeline.
func TestWhoeverAsksCorrectsWhatIsRemembered(t *testing.T) {
	t.Parallel()
	for name, ask := range map[string]func(r engine.Request) engine.Request{
		"COST 0":     func(r engine.Request) engine.Request { r.Cost = 0; return r },
		"RL.INSPECT": func(r engine.Request) engine.Request { return conformance.Inspect(string(r.Key)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.StartClocked(t)
			e := openAt(t, nil, s)
			e.now = func() time.Time { return e.began } // a remembered denial would not end
			ahead := time.Duration(0)
			slide, rate := conformance.Slide("k", 1, 3_600_000, 1), conformance.Throttle("k", 0, 1, 3600, 1)
			for _, r := range []engine.Request{slide, rate} {
				for _, together := range []bool{false, true} {
					require.True(t, conformance.Ask(e, r).Allowed)
					require.False(t, conformance.Ask(e, r).Allowed)
					ahead += 2 * time.Hour
					s.StepClock(ahead)
					require.False(t, conformance.Ask(e, r).Allowed, "from memory")
					p := engine.Pipeline{Requests: []engine.Request{ask(r), r}}
					if !together {
						conformance.Ask(e, p.Requests[0])
						p.Requests = p.Requests[1:]
					}
					e.Do(&p)
					require.True(t, p.Results[len(p.Results)-1].Allowed)
					ahead += 2 * time.Hour
					s.StepClock(ahead)
				}
			}
		})
	}
}

// The next call is answered by the node's current state, and not by a denial of another request or
// from before a reset.
func TestDenialsAreForgotten(t *testing.T) {
	s := redistest.Start(t)
	here, there := openAt(t, nil, s), openAt(t, nil, s)
	require.Eventually(t, func() bool { // here and there listen
		return s.Client.PubSubNumSub(t.Context(), resets.Channel).Val()[resets.Channel] == 2
	}, 5*time.Second, time.Millisecond)
	// Messages of earlier resets may still be under way, and also clear the memory.
	key := "k"
	deny := func() {
		t.Helper()
		conformance.Ask(here, conformance.Reset(key))
		require.True(t, conformance.Ask(here, conformance.Slide(key, 5, 3_600_000, 3)).Allowed)
		require.Eventually(t, func() bool {
			require.False(t, conformance.Ask(here, conformance.Slide(key, 5, 3_600_000, 3)).Allowed)
			return here.denials.Kept() == 1
		}, 5*time.Second, time.Millisecond)
	}
	deny()
	require.True(t, conformance.Ask(here, conformance.Slide("k", 5, 3_600_000, 1)).Allowed, "another cost")
	deny()
	require.True(t, conformance.Ask(here, conformance.Slide("k", 6, 3_600_000, 3)).Allowed, "a raised limit")
	deny()
	require.True(t, conformance.Ask(here, conformance.Reset("k")).Reset)
	require.True(t, conformance.Ask(here, conformance.Slide("k", 5, 3_600_000, 3)).Allowed, "a reset here")

	deny()
	p := engine.Pipeline{Requests: []engine.Request{conformance.Slide("k", 5, 3_600_000, 3), conformance.Reset("k"), conformance.Slide("k", 5, 3_600_000, 3)}}
	here.Do(&p)
	require.False(t, p.Results[0].Allowed)
	require.True(t, p.Results[1].Reset)
	require.True(t, p.Results[2].Allowed, "a reset before it in the pipeline")

	for _, key = range []string{"k", "k\xffs"} { // and its shadow
		deny()
		require.True(t, conformance.Ask(there, conformance.Reset(key)).Reset)
		require.Eventually(t, func() bool { return here.denials.Kept() == 0 },
			5*time.Second, time.Millisecond, "the message of a reset elsewhere: no look-up drops it")
		require.True(t, conformance.Ask(here, conformance.Slide(key, 5, 3_600_000, 3)).Allowed)
	}
}

// A denial from memory answers only the equal requests that follow it in its pipeline. A request with
// another limit, which may be admitted, ends that.
func TestRememberedDenialAnswersEquals(t *testing.T) {
	s := redistest.Start(t)
	e := openAt(t, nil, s)
	e.remember = true
	full := conformance.Slide("full", 2, 600_000, 1)
	require.True(t, conformance.Ask(e, conformance.Slide("full", 2, 600_000, 2)).Allowed)
	require.False(t, conformance.Ask(e, full).Allowed) // and remembered
	before := functionCalls(t, s)
	p := engine.Pipeline{Requests: []engine.Request{
		full, full, conformance.Slide("free", 2, 600_000, 1), full, full, conformance.Slide("full", 3, 600_000, 1), full, full,
		conformance.Slide("full", 2, 600_000, 2), conformance.Reset("full"), full, full, full,
	}}
	e.Do(&p)
	var allowed, remembered []bool
	for i := range p.Results {
		require.NoError(t, p.Results[i].Err)
		allowed, remembered = append(allowed, p.Results[i].Allowed), append(remembered, p.Results[i].Remembered)
	}
	const no, yes = false, true
	require.Equal(t, []bool{yes, yes, no, yes, yes, no, no, no, no, no, no, no, no}, remembered)
	require.Equal(t, []bool{no, no, yes, no, no, yes, no, no, no, no, yes, yes, no}, allowed)
	require.Equal(t, int64(4), e.denials.Answers(), "all equals before another limit, and none behind it")
	require.Equal(t, before+3, functionCalls(t, s), "the reset has a call of its own")
}
