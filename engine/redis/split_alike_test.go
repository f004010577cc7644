package redis

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/stretchr/testify/require"
)

// Random histories of requests about split keys, through three proxies, are decided as the embedded engine decides
// them, which splits nothing. Each key is asked about in several ways and with changing limits: RL.SLIDE, RL.COUNTER with
// and without STRICT, RL.FIXED, two windows, RL.RESERVE, RL.HOLD, RL.SETTLE, ONCE and RL.RESET.
func TestSplitKeysAreDecidedAsIfTheyWereNotSplit(t *testing.T) {
	t.Parallel()
	seed := conformance.Seed()
	run := &alike{Lines: &conformance.Lines{
		Rand: rand.New(rand.NewPCG(seed, 2)), With: []string{"SHARDS"}, Without: []string{"FAIL", "SHADOW", "AND"},
		From: map[string][]int64{"window": {20, 100, 500, 1000, 3000, 7777, 60_000, 86_400_000, -1, -2}, "SHARDS": {1, 2, 3, 4, 7}, "BUCKETS": {1, 4, 10}},
	}}
	run.now.Store(conformance.Base)
	clock := run.now.Load
	servers, _ := startServers(t, 4)
	var proxies []*Engine
	for range 3 {
		proxies = append(proxies, openAt(t, clock, servers...))
		ready(t, proxies[len(proxies)-1], "a", "b", "c", "d", "e", "f")
	}
	whole := memory.New(memory.Config{Now: conformance.At(clock)})
	seen, rounded, steps := map[string]int{}, 0, conformance.Soak(t, 2500)
	for step := range steps {
		if step%120 == 0 {
			run.narrow(step)
		}
		r := run.request()
		var split, unsplit engine.Pipeline
		for range 1 + run.IntN(6)*run.IntN(2) {
			*split.Add(), *unsplit.Add() = r, r
		}
		withCalendar(proxies[run.IntN(len(proxies))]).Do(&split)
		whole.Do(&unsplit)
		for i := range split.Results {
			got, want := &split.Results[i], &unsplit.Results[i]
			if r.Kind == limit.Counter && !r.Strict() && got.Allowed && !want.Allowed {
				// Each shard rounds the weight of its oldest sub-window down, so up to a unit a shard more is admitted.
				// From then on the two count differently.
				rounded++
				run.narrow(-1 - step)
				break
			}
			seen[fmt.Sprintf("%v %v %v", r.Op, r.Kind, got.Allowed)]++
			why := fmt.Sprintf("-seed %d, step %d, request %d: %+v\ngot  %+v\nwant %+v", seed, step, i, r, got, want)
			require.Equal(t, want.Err == nil, got.Err == nil, why)
			require.Equal(t, want.Allowed, got.Allowed, why)
			require.Equal(t, want.Again, got.Again, why)
			require.Equal(t, want.Settled, got.Settled, why)
			require.Equal(t, engine.FailDefault, got.Fail, why)
			if r.Op == engine.OpDecide && !got.Allowed && got.Limit == want.Limit {
				require.LessOrEqual(t, got.RetryAfter, want.RetryAfter, why)
			}
		}
		run.pass()
	}
	t.Logf("seed %d: %v, rounded %d times", seed, seen, rounded)
	require.LessOrEqual(t, rounded, 2+steps/1000)
}

// alike draws the requests of a history.
type alike struct {
	*conformance.Lines
	now  atomic.Int64     // ms; loans read it, too, which nobody waits for
	held []engine.Request // with ids
}

// one returns one of a few values.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// narrow begins with another key, and chooses what its requests are drawn from.
func (a *alike) narrow(step int) {
	a.Keys, a.held = []string{fmt.Sprint("alike:", step)}, nil
	a.Narrow()
}

func (a *alike) request() engine.Request {
	if a.IntN(10) == 0 && len(a.held) > 0 {
		was := one(a.Rand, a.held...)
		if was.Hold.Once || a.IntN(4) == 0 {
			return was // again
		}
		r := conformance.Settle(a.Keys[0], was.Kind, "", a.Int64N(was.Cost+1))
		r.Hold.ID = was.Hold.ID
		return r
	}
	var p engine.Pipeline
	a.Add(&p, "RL.SLIDE", "RL.SLIDE", "RL.SLIDE", "RL.SLIDE", "RL.COUNTER", "RL.COUNTER", "RL.FIXED", "RL.FIXED", "RL.RESERVE", "RL.HOLD")
	r := p.Requests[0]
	if a.IntN(40) == 0 {
		return conformance.Reset(a.Keys[0])
	}
	if r.Hold != nil {
		a.held = append(a.held, r)
	}
	return r
}

// length returns the ms of a window; that of one of a calendar is that of a week.
func (a *alike) length() int64 {
	if ms := a.Choice("window"); ms > 0 {
		return ms
	}
	return 7 * 86_400_000
}

// pass lets time pass: most often little, or none.
func (a *alike) pass() {
	switch a.IntN(12) {
	case 0:
		a.now.Add(a.Int64N(30))
	case 1:
		a.now.Add(a.Int64N(a.length()/4 + 2))
	case 2:
		a.now.Add(a.Int64N(2*a.length()) / 6)
	case 3:
		a.now.Add(1000 * a.Int64N(2))
	case 4, 5, 6, 7:
		a.now.Add(a.Int64N(3))
	}
}
