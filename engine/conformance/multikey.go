package conformance

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	holds "github.com/rlproxy/rlproxy/engine/hold/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// RunJoint checks the multi-key requests of an engine, by the transcripts and by a number of random requests. Unless exact is
// set, the random ones do not compare reset_after of keys with room in a denied request, and that of RL.COUNTER with BUCKETS may
// be a ms too long: an engine that holds units first may return too much.
func RunJoint(t *testing.T, open Subject, random int, exact bool) {
	t.Run("transcripts", func(t *testing.T) { transcripts(t, open, "multikey/*.txt") })
	t.Run("windows", func(t *testing.T) { multiKeyWindows(t, open) })
	t.Run("lapses", func(t *testing.T) { multiKeyLapses(t, open) })
	most := 10 * random // in a soak, because each consists of many requests
	t.Run("random", func(t *testing.T) { randomJoint(t, open, min(Soak(t, random), most), exact) })
}

// multiKeyWindows checks that a multi-key request with more windows than one of its keys may have charges none of them.
func multiKeyWindows(t *testing.T, open Subject) {
	e := open(t, func() int64 { return Base })
	for i := range int64(engine.MaxStates) - 1 {
		require.NoError(t, Ask(e, Slide("full", 10, 60_000+i, 1)).Err)
	}
	full := Slide("full", 10, 50_000, 1)
	full.N, full.Windows[1] = 2, limit.Window{Limit: 10, Length: 40_000}
	p := engine.Pipeline{Requests: []engine.Request{Slide("other", 10, 60_000, 1), full}}
	p.Requests[0].MoreKeys = 1
	e.Do(&p)
	for _, res := range p.Results {
		require.ErrorContains(t, res.Err, engine.ErrStates.Error())
	}
	require.Empty(t, Ask(e, Inspect("other")).States)
	require.Len(t, Ask(e, Inspect("full")).States, engine.MaxStates-1)
}

// multiKeyLapses checks that a multi-key request reports the lapsed reservations that it removes.
func multiKeyLapses(t *testing.T, open Subject) {
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	held := Slide("held", 10, 60_000, 1)
	held.Hold = &engine.Hold{ID: engine.DigestOf([]byte("id")), TTL: 50, Release: true}
	require.True(t, Ask(e, held).Allowed)
	clock += 50
	p := engine.Pipeline{Requests: []engine.Request{Slide("other", 10, 60_000, 1), Slide("held", 10, 60_000, 1)}}
	p.Requests[0].MoreKeys = 1
	e.Do(&p)
	require.True(t, p.Results[1].Allowed)
	require.Equal(t, []int64{0, 1}, []int64{p.Results[0].Lapsed, p.Results[1].Lapsed})
}

// randomJoint sends a number of requests for some of five keys, some of them for a single key, and compares the answers with
// those of a model of each key.
func randomJoint(t *testing.T, open Subject, requests int, exact bool) {
	seed := Seed()
	rng := rand.New(rand.NewPCG(seed, 2))
	requireEveryField(t, func() limit.Spec { return multiKeyRequest(rng, "").Spec })
	clock := int64(Base)
	e := open(t, func() int64 { return clock })
	var keys [5]*holds.Key
	for i := range keys {
		keys[i] = holds.New()
	}
	seen := map[string]int{}
	var p engine.Pipeline
	for sent := 0; sent < requests; {
		p.Reset()
		var of []int // the key of each request
		for range 1 + rng.IntN(5) {
			first := len(of)
			for _, k := range rng.Perm(len(keys))[:1+rng.IntN(len(keys))] {
				of = append(of, k)
				*p.Add() = multiKeyRequest(rng, fmt.Sprintf("multikey-%d-%d", seed, k))
			}
			p.Requests[first].MoreKeys = len(of) - first - 1
		}
		e.Do(&p)
		for i := 0; i < len(of); {
			n := 1 + p.Requests[i].MoreKeys
			models := make([]*holds.Key, n)
			for j := range models {
				models[j] = keys[of[i+j]]
			}
			want, got := multiKeyModel(models, clock, p.Requests[i:i+n]), make([]limit.Decision, n)
			for j := range got {
				res := &p.Results[i+j]
				require.NoError(t, res.Err)
				got[j] = res.Decision
				if !exact && p.Requests[i+j].Param > 1 && got[j].ResetAfter == want[j].ResetAfter+1 {
					got[j].ResetAfter--
				}
				if !exact && !want[j].Allowed && want[j].RetryAfter == 0 {
					got[j].ResetAfter, got[j].Window, want[j].ResetAfter, want[j].Window = 0, 0, 0, 0
				}
			}
			require.Equal(t, want, got, "-seed %d, request %d, clock base+%d: %+v", seed, sent, clock-Base, p.Requests[i:i+n])
			for _, k := range models {
				require.LessOrEqual(t, k.Excess(clock), int64(0), "-seed %d: a limit is exceeded", seed)
			}
			seen[fmt.Sprint(got[0].Allowed)]++
			i += n
			sent++
		}
		clock += rng.Int64N([]int64{2, 2, 50, 500, 3000}[rng.IntN(5)])
	}
	t.Logf("seed %d: %v", seed, seen)
	require.Greater(t, seen["true"], requests/20)
	require.Greater(t, seen["false"], requests/20)
}

func multiKeyRequest(rng *rand.Rand, key string) engine.Request {
	r := Request(holds.Kinds[rng.IntN(len(holds.Kinds))], key, []int64{3, 10, 40}[rng.IntN(3)], []int64{20, 1000, 7777}[rng.IntN(3)])
	if rng.IntN(3) == 0 {
		r.N, r.Windows[1] = 2, limit.Window{Limit: 50, Length: 60_000}
	}
	if r.Kind == limit.Counter {
		r.Param, r.Manner = []int64{1, 1, 2, 7, 20}[rng.IntN(5)], rng.Int64N(3)/2
	}
	if rng.IntN(3) == 0 {
		r.Cost = rng.Int64N(4)
	}
	return r
}

// multiKeyModel answers a multi-key request: either all keys admit it and are charged, or none is charged.
func multiKeyModel(keys []*holds.Key, clock int64, requests []engine.Request) []limit.Decision {
	out := make([]limit.Decision, len(keys))
	all := true
	for i, k := range keys {
		all = all && k.Admits(clock, &requests[i].Spec, false)
	}
	for i, k := range keys {
		if s := &requests[i].Spec; all || !k.Admits(clock, s, false) {
			out[i] = k.Decide(clock, s, nil).Decision
			continue
		} else if len(keys) > 1 {
			out[i] = k.Peek(clock, s)
			out[i].Allowed = false
		}
	}
	return out
}
