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
// and without STRICT, RL.FIXED, two windows, RL.RESERVE, RL.SETTLE, ONCE and RL.RESET.
func TestSplitKeysAreDecidedAsIfTheyWereNotSplit(t *testing.T) {
	t.Parallel()
	seed := conformance.Seed()
	run := &alike{Rand: rand.New(rand.NewPCG(seed, 2))}
	run.now.Store(conformance.Base)
	clock := run.now.Load
	servers, _ := startServers(t, 4)
	var proxies []*Engine
	for range 3 {
		proxies = append(proxies, openAt(t, clock, servers...))
		ready(t, proxies[len(proxies)-1], "a", "b", "c", "d", "e", "f")
	}
	whole := memory.New(memory.Config{Now: conformance.At(clock)})
	seen := map[string]int{}
	for step := range conformance.Soak(t, 4000) {
		if step%120 == 0 {
			run.narrow(step)
		}
		r := run.request(step)
		var split, unsplit engine.Pipeline
		for range 1 + run.IntN(6)*run.IntN(2) {
			*split.Add(), *unsplit.Add() = r, r
		}
		proxies[run.IntN(len(proxies))].Do(&split)
		whole.Do(&unsplit)
		for i := range split.Results {
			got, want := &split.Results[i], &unsplit.Results[i]
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
	t.Logf("seed %d: %v", seed, seen)
}

// alike draws the requests of a history.
type alike struct {
	*rand.Rand
	now atomic.Int64 // ms; loans read it, too, which nobody waits for
	key string

	windows, limits []int64
	shards          []int
	held            []engine.Request // with ids
}

// one returns one of a few values.
func one[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

// narrow begins with another key, and chooses what its requests are drawn from.
func (a *alike) narrow(step int) {
	a.key, a.held = fmt.Sprint("alike:", step), nil
	a.limits = one(a.Rand, []int64{3}, []int64{10, 20}, []int64{100}, []int64{50, 200}, []int64{1000}, []int64{70_000, 66_000}, []int64{1e12})
	a.windows = one(a.Rand, []int64{1000}, []int64{20}, []int64{3000, 500}, []int64{60_000}, []int64{7777, 1234, 100}, []int64{86_400_000})
	a.shards = one(a.Rand, []int{4}, []int{2, 4}, []int{3}, []int{1, 4}, []int{7})
}

func (a *alike) request(step int) engine.Request {
	r := conformance.Request(one(a.Rand, limit.Slide, limit.Slide, limit.Slide, limit.Counter, limit.Fixed), a.key, one(a.Rand, a.limits...), one(a.Rand, a.windows...))
	if r.Kind == limit.Counter {
		r.Param, r.Manner = one[int64](a.Rand, 1, 4, 10), a.Int64N(2)
	}
	if len(a.windows) > 1 && a.IntN(4) == 0 {
		r.N = 2
		for i := range r.N {
			r.Windows[i] = limit.Window{Limit: one(a.Rand, a.limits...), Length: a.windows[i]}
		}
	}
	most := r.Smallest()
	r.Cost = min(one(a.Rand, 1, 1, 1, 2, max(1, most/10), max(1, most/3), most), most)
	r.Shards = one(a.Rand, a.shards...)
	if a.IntN(4) == 0 {
		r.ID = fmt.Append(nil, a.IntN(20))
	}
	switch n := a.IntN(40); {
	case n == 0:
		return conformance.Reset(a.key)
	case n < 3 && r.Kind == limit.Slide:
		r.Hold = &engine.Hold{ID: engine.DigestOf(fmt.Append(nil, step)), TTL: one[int64](a.Rand, 50, 1000, 20_000), Release: a.IntN(3) == 0}
		a.held = append(a.held, r)
	case n < 5:
		r.Hold = &engine.Hold{ID: engine.DigestOf(fmt.Append(nil, step)), Once: true}
		a.held = append(a.held, r)
	case n < 8 && len(a.held) > 0:
		was := one(a.Rand, a.held...)
		if was.Hold.Once || a.IntN(4) == 0 {
			return was // again
		}
		r = conformance.Settle(a.key, was.Kind, "", a.Int64N(was.Cost+1))
		r.Hold.ID = was.Hold.ID
	}
	return r
}

// pass lets time pass: most often little, or none.
func (a *alike) pass() {
	switch a.IntN(12) {
	case 0:
		a.now.Add(a.Int64N(30))
	case 1:
		a.now.Add(a.Int64N(a.windows[0]/4 + 2))
	case 2:
		a.now.Add(a.Int64N(2*a.windows[0]) / 6)
	case 3:
		a.now.Add(1000 * a.Int64N(2))
	case 4, 5, 6, 7:
		a.now.Add(a.Int64N(3))
	}
}
