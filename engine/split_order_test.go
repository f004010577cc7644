package engine

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Pipelines of anything about a few split keys are answered as if each request had come
// alone, and by one node: also the first ones, of which the proxy knows nothing yet.
func TestSplitOrder(t *testing.T) {
	engines, _ := splitEngines(t, 1, 3)
	e, rng := engines[0], rand.New(rand.NewPCG(1, 2))
	for round := range 15 {
		const keys = 3
		limit := 1 + rng.Int64N(60)
		var used [keys]int64
		for range 12 {
			p := &Pipeline{}
			var want []any // by request: whether it is admitted, or what is used
			for range 1 + rng.IntN(40) {
				at := rng.IntN(keys)
				r := splitAsk(fmt.Sprintf("order:%d:%d", round, at), OpSlide, 1, 3, Window{limit, 3_600_000})
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
