package lua_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/stretchr/testify/require"
)

// ids returns everything that the node has stored about a key's ids.
func (w *twins) ids(key string) string {
	w.t.Helper()
	ctx, name := context.Background(), key+"%i"
	return fmt.Sprintf("%q until %v", w.server.Client.HGetAll(ctx, name).Val(), w.server.Client.PExpireTime(ctx, name).Val())
}

// hold runs a function that takes an id on a stored key and its twin. It returns the reply, and whether it came from the fast path.
func (w *twins) hold(f *lua.Function, key string, clock int64, args [][]byte) (string, bool) {
	w.t.Helper()
	const probe = "probe"
	w.server.Do("DEL", probe, probe+"%i")
	w.server.Do("COPY", key, probe)
	w.server.Do("COPY", key+"%i", probe+"%i")
	words := append([]any{"fcall", f.Name[:len(f.Name)-len(fastOnly)] + fastOnly, 1, probe, clock}, texts(args)...)
	probed, err := w.server.Client.Do(context.Background(), words...).Text()
	reply := w.run(f, key, clock, texts(args)...)
	require.Equal(w.t, w.ids(twin(key)), w.ids(key))
	if err != nil {
		require.ErrorContains(w.t, err, "damaged", "an error of Lua's own")
		return reply, false
	}
	require.Equal(w.t, reply, probed)
	require.Equal(w.t, w.stored(key), w.stored(probe))
	require.Equal(w.t, w.ids(key), w.ids(probe))
	return reply, true
}

// The fast paths of RL.RESERVE, of RL.SETTLE and of decisions beside held units give the same replies as the slow path, and store
// the same, after any history.
func TestPathsOfHoldsAgreeOverRandomHistories(t *testing.T) {
	t.Parallel()
	histories := rounds("LUA_HISTORIES", 6)
	w := startTwins(t)
	fast, slow := map[string]int{}, map[string]int{}
	for seed := range uint64(histories) {
		w.walkHolds(rand.New(rand.NewPCG(seed, 0)), fast, slow)
		w.server.Do("FLUSHALL")
	}
	const held wire.Status = 4
	for p, n := range w.count {
		if p.status == held && p.fast {
			fast[fmt.Sprintf("decide %v, patched %v", p.kind, p.patched)] += n
		}
	}
	t.Log("fast", fast, "slow", slow)
	for of, atLeast := range map[string]int{
		"reserve": 4, "reserve, patched": 8, "settle": 4, "settle, patched": 8,
		"decide RL.SLIDE, patched false": 3, "decide RL.SLIDE, patched true": 3,
	} {
		require.Greater(t, fast[of], atLeast*histories, of)
	}
	require.Positive(t, fast["decide RL.COUNTER, patched false"]+fast["decide RL.COUNTER, patched true"])
	for _, of := range []string{"reserve", "settle"} {
		require.Greater(t, slow[of]+slow[of+", patched"], 5*histories, of)
	}
}

func (w *twins) walkHolds(rng *rand.Rand, fast, slow map[string]int) {
	w.t.Helper()
	type reservation struct {
		id   string
		cost int64
	}
	var out []reservation
	window := limit.Window{Limit: []int64{100, 1000, 200_000}[rng.IntN(3)], Length: 1000 * (1 + rng.Int64N(100))}
	ttl, clock := max(window.Length/[]int64{1, 10, 100}[rng.IntN(3)], 50), base
	if rng.IntN(3) == 0 { // the grid of the log is wider than the TTL
		window.Length, ttl = 10_000_000_000, 60
	}
	mixed := rng.IntN(3) == 0 // the record has other states, too
	if rng.IntN(2) == 0 {     // a log that is too long for an inline record
		r := request(limit.Slide, limit.Window{Limit: 1000, Length: 100_000})
		window, ttl = r.Windows[0], 5000
		if rng.IntN(2) == 0 { // the log comes second
			reply, _ := w.hold(lua.Admit, storedKey(r, 0), clock, wire.AdmitArgs(with(r, "first", ttl, false)))
			require.NotEmpty(w.t, reply)
		}
		for range 100 {
			clock++
			w.decide(clock, r, 0, 1)
		}
	}
	for i := range 250 {
		switch rng.IntN(12) {
		case 0:
			clock += rng.Int64N(ttl)
		case 1:
			clock -= rng.Int64N(20)
		case 2:
		default:
			clock += rng.Int64N(ttl/20 + 1)
		}
		r := request(limit.Slide, window)
		r.Cost = 1 + rng.Int64N(3)
		switch n := rng.IntN(100); {
		case !mixed:
		case n < 20:
			r = request(limit.Counter, window)
		case n < 24:
			r.Windows[0].Limit = []int64{window.Limit + 1, 200_000}[rng.IntN(2)]
		case n < 28:
			r.N, r.Windows[1] = 2, limit.Window{Limit: 1000, Length: 500}
		}
		key := storedKey(r, 0)
		count := func(of string, wasFast bool) {
			if patched(w.stored(key).text) {
				of += ", patched"
			}
			if wasFast {
				fast[of]++
			} else {
				slow[of]++
			}
		}
		switch n := rng.IntN(10); {
		case n < 2:
			w.decide(clock, r, 0, 1)
		case n == 2:
			reply, _ := w.hold(lua.Admit, key, clock, wire.AdmitArgs(once(r, fmt.Sprint("once", rng.IntN(50)))))
			require.NotEmpty(w.t, reply)
		case n < 7:
			id, lasts := fmt.Sprint("id", i), ttl
			if rng.IntN(20) == 0 {
				id, lasts = fmt.Sprint("id", rng.IntN(i+1)), ttl/2
			}
			r = with(r, id, lasts, rng.IntN(50) == 0)
			reply, wasFast := w.hold(lua.Admit, key, clock, wire.AdmitArgs(r))
			a, err := wire.DecodeAdmit(reply, r)
			require.NoError(w.t, err)
			if a.Granted == 1 && !a.Again {
				count("reserve", wasFast)
				out = append(out, reservation{id, r.Cost})
			}
		case len(out) > 0:
			at := rng.IntN(len(out))
			settled := out[at]
			cost := rng.Int64N(settled.cost + 1)
			if rng.IntN(20) == 0 {
				cost = settled.cost + 1
			}
			out = append(out[:at], out[at+1:]...)
			s := &engine.Request{Op: engine.OpSettle, Spec: limit.Spec{Cost: cost}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(settled.id))}}
			_, wasFast := w.hold(lua.Settle, key, clock, wire.SettleArgs(s))
			count("settle", wasFast)
		}
	}
}
