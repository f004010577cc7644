package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Pipelines of anything about a few split keys are answered as if each request had come
// alone, and by one node: also the first ones, of which the proxy knows nothing yet. A
// proxy that nobody asks for a split has heard of it from the home.
func TestSplitOrder(t *testing.T) {
	engines, _ := splitEngines(t, 2, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 15 {
		const keys = 3
		limit := 1 + rng.Int64N(60)
		var used [keys]int64
		for range 12 {
			e, shards := engines[0], 3
			if rng.IntN(3) == 0 {
				e, shards = engines[1], 0
				for at := range keys {
					require.NoError(t, do(e, splitAsk(fmt.Sprintf("order:%d:%d", round, at), OpSlide, 0, 0, Window{limit, 3_600_000})).Err)
				}
			}
			e.denied.forgetAll() // the message of a reset may take its time
			p := &Pipeline{}
			var want []any // by request: whether it is admitted, or what is used
			for range 1 + rng.IntN(40) {
				at := rng.IntN(keys)
				r := splitAsk(fmt.Sprintf("order:%d:%d", round, at), OpSlide, 1, shards, Window{limit, 3_600_000})
				switch n := rng.IntN(40); {
				case n == 0:
					r = Request{Op: OpReset, Key: r.Key}
					want = append(want, used[at] > 0)
					used[at] = 0
				case n == 1:
					r = Request{Op: OpInspect, Key: r.Key}
					want = append(want, used[at])
				case n < 4:
					r.Cost = 0
					want = append(want, used[at])
				default:
					if n < 16 {
						r.Cost = 1 + rng.Int64N(min(limit, 5))
					}
					admitted := used[at]+r.Cost <= limit
					if admitted {
						used[at] += r.Cost
					}
					want = append(want, admitted)
				}
				*p.Add() = r
			}
			e.Do(p)
			for i := range want {
				require.NoError(t, p.Results[i].Err)
				require.Equal(t, want[i], answerOf(&p.Requests[i], &p.Results[i]), "round %d, request %d: %+v", round, i, p.Requests[i])
			}
		}
	}
}

// answerOf boils a result down to whether it was admitted, was there, or how much is used.
func answerOf(r *Request, res *Result) any {
	switch {
	case r.Op == OpReset:
		return res.Reset
	case r.Op == OpInspect && len(res.States) == 0:
		return int64(0)
	case r.Op == OpInspect:
		return res.States[0].Used
	case r.Cost == 0:
		return r.Windows[0].Limit - res.Remaining
	}
	return res.Allowed
}

// Every proxy that asks the home hears of a split, and that it is over.
func TestSplitIsHeardOf(t *testing.T) {
	engines, _ := splitEngines(t, 2, 3)
	window := Window{1000, 300}
	ask := splitAsk("heard", OpSlide, 1, 0, window)
	require.True(t, do(engines[1], ask).Allowed)
	require.Equal(t, 1, engines[1].splits.parts(ask.Key))
	for range 6 {
		require.True(t, do(engines[0], splitAsk("heard", OpSlide, 1, 3, window)).Allowed)
	}
	require.True(t, do(engines[1], ask).Allowed)
	require.Equal(t, 3, engines[1].splits.parts(ask.Key))
	require.Eventually(t, func() bool {
		return do(engines[1], ask).Err == nil && engines[1].splits.parts(ask.Key) == 1
	}, 10*time.Second, time.Millisecond)
	require.Zero(t, engines[1].splits.known.Load())
}
