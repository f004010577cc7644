package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// Pipelines with every kind of request about a few split keys are answered as if one node had answered
// each request alone. That includes the first ones, when the proxy does not know of the split yet. A
// proxy whose clients do not ask for a split learns of it from the home.
func TestSplitOrder(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 2, 3)
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 15 {
		const keys = 3
		most := 1 + rng.Int64N(60)
		var used [keys]int64
		for range 12 {
			e, shards := engines[0], 3
			if rng.IntN(3) == 0 {
				e, shards = engines[1], 0
				for at := range keys {
					require.NoError(t, conformance.Ask(e, splitRequest(fmt.Sprintf("order:%d:%d", round, at), limit.Slide, 0, 0, limit.Window{Limit: most, Length: 3_600_000})).Err)
				}
			}
			e.denials.ForgetAll() // the message of a reset may take its time
			p := &engine.Pipeline{}
			var want []any // by request: whether it is admitted, or what is used
			for range 1 + rng.IntN(40) {
				at := rng.IntN(keys)
				r := splitRequest(fmt.Sprintf("order:%d:%d", round, at), limit.Slide, 1, shards, limit.Window{Limit: most, Length: 3_600_000})
				switch n := rng.IntN(40); {
				case n == 0:
					r = conformance.Reset(string(r.Key))
					want = append(want, used[at] > 0)
					used[at] = 0
				case n == 1:
					r = conformance.Inspect(string(r.Key))
					want = append(want, used[at])
				case n < 4:
					r.Cost = 0
					want = append(want, used[at])
				default:
					if n < 16 {
						r.Cost = 1 + rng.Int64N(min(most, 5))
					}
					admitted := used[at]+r.Cost <= most
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

// answerOf reduces a result to whether the request was admitted, whether the key existed, or how much
// is used.
func answerOf(r *engine.Request, res *engine.Result) any {
	switch {
	case r.Op == engine.OpReset:
		return res.Reset
	case r.Op == engine.OpInspect && len(res.States) == 0:
		return int64(0)
	case r.Op == engine.OpInspect:
		return res.States[0].Used
	case r.Cost == 0:
		return r.Windows[0].Limit - res.Remaining
	}
	return res.Allowed
}

// Every proxy that asks the home learns of a split, and of its end.
func TestSplitIsHeardOf(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 2, 3)
	window := limit.Window{Limit: 1000, Length: 300}
	ask := splitRequest("heard", limit.Slide, 1, 0, window)
	require.True(t, conformance.Ask(engines[1], ask).Allowed)
	require.Equal(t, 1, engines[1].splits.Shards(ask.Key))
	for range 6 {
		require.True(t, conformance.Ask(engines[0], splitRequest("heard", limit.Slide, 1, 3, window)).Allowed)
	}
	require.True(t, conformance.Ask(engines[1], ask).Allowed)
	require.Equal(t, 3, engines[1].splits.Shards(ask.Key))
	require.Eventually(t, func() bool {
		return conformance.Ask(engines[1], ask).Err == nil && engines[1].splits.Shards(ask.Key) == 1
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, "0", info(t, engines[1], "splits"))
}
