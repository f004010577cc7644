package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// The home of a split key keeps its ids and holds, whatever it has lent. Requests of every kind, sent
// one by one through any proxy, are together admitted up to exactly the limit.
func TestSplitKeysHoldAndChargeOnce(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 3, 4)
	const most, hour = 301, 3_600_000
	for round := range 3 {
		key := fmt.Sprintf("holds:%d", round)
		one := func() *Engine { return engines[rand.IntN(len(engines))] }
		plain := splitRequest(key, limit.Slide, 1, 4, limit.Window{Limit: most, Length: hour})
		withID := func(hold engine.Hold, id, cost int64) engine.Request {
			r := plain
			hold.ID = engine.DigestOf(fmt.Append(nil, id))
			r.Hold, r.Cost, r.Fail = &hold, cost, engine.FailError
			return r
		}
		var charged, held int64
		type out struct{ id, cost int64 }
		var outs []out
		for step := range int64(400) {
			switch rand.IntN(5) {
			case 0, 1:
				res := askAll(t, one(), plain)[0]
				require.Equal(t, charged+held < most, res.Allowed, "step %d: %d charged, %d held, %+v", step, charged, held, res.Decision)
				if res.Allowed {
					charged++
				}
			case 2:
				r := withID(engine.Hold{Once: true}, step, 2)
				res := askAll(t, one(), r)[0]
				require.Equal(t, charged+held+2 <= most, res.Allowed, "step %d: %d charged, %d held, %+v", step, charged, held, res.Decision)
				again := askAll(t, one(), r)[0]
				require.Equal(t, res.Allowed, again.Again)
				if res.Allowed {
					charged += 2
					require.Equal(t, res.Decision, again.Decision)
				}
			case 3:
				cost := 1 + rand.Int64N(20)
				r := withID(engine.Hold{TTL: hour}, step, cost)
				res := askAll(t, one(), r)[0]
				require.Equal(t, charged+held+cost <= most, res.Allowed, "step %d: %d charged, %d held, cost %d, %+v", step, charged, held, cost, res.Decision)
				if res.Allowed {
					held += cost
					outs = append(outs, out{step, cost})
					require.True(t, askAll(t, one(), r)[0].Again)
				}
			default:
				if len(outs) == 0 {
					continue
				}
				o := outs[0]
				outs = outs[1:]
				cost := rand.Int64N(o.cost + 1)
				for again := range 2 {
					res := askAll(t, one(), settle(key, fmt.Sprint(o.id), cost))[0].Settled
					require.Equal(t, engine.Settlement{Settled: true, Again: again > 0, Charged: cost, Returned: o.cost - cost}, res)
				}
				charged, held = charged+cost, held-o.cost
			}
			if step%40 == 0 {
				peek := plain
				peek.Cost = 0
				require.Equal(t, most-charged-held, askAll(t, one(), peek)[0].Remaining)
				states := askAll(t, one(), conformance.Inspect(key))[0].States
				if charged+held == 0 {
					require.Empty(t, states)
					continue
				}
				require.Len(t, states, 1)
				require.Equal(t, []int64{charged, held, most - charged - held}, []int64{states[0].Used, states[0].Held, states[0].Remaining})
			}
		}
		shards := askAll(t, one(), conformance.Inspect(key))[0].States[0].Shards
		require.NotEmpty(t, shards, "nothing was lent")
		require.True(t, askAll(t, one(), conformance.Reset(key))[0].Reset)
		require.Empty(t, askAll(t, one(), conformance.Inspect(key))[0].States)
		for _, o := range outs {
			require.False(t, askAll(t, one(), settle(key, fmt.Sprint(o.id), 1))[0].Settled.Settled, "a reset forgets it")
		}
	}
}

// The home decides requests with ids, in the order of their pipeline.
func TestSplitKeysKeepTheOrderOfRequestsWithIDs(t *testing.T) {
	t.Parallel()
	engines, _ := openSplit(t, 1, 3)
	plain := splitRequest("order", limit.Slide, 1, 3, limit.Window{Limit: 10, Length: 3_600_000})
	reserved, once := plain, plain
	reserved.Cost, reserved.Hold = 4, &engine.Hold{ID: engine.DigestOf([]byte("r")), TTL: minute}
	once.Cost, once.Hold = 2, &engine.Hold{ID: engine.DigestOf([]byte("o")), Once: true}
	want := []int64{9, 5, 3, 3, 2}
	got := askAll(t, engines[0], plain, reserved, once, once, plain, settle("order", "r", 1), plain, reserved)
	for i, remaining := range want {
		require.Equal(t, remaining, got[i].Remaining, "request %d", i)
	}
	require.True(t, got[3].Again)
	require.Equal(t, engine.Settlement{Settled: true, Charged: 1, Returned: 3}, got[5].Settled)
	require.EqualValues(t, 4, got[6].Remaining)
	require.True(t, got[7].Again && got[7].Remaining == 5, "%+v", got[7])
}
