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
	histories := rounds("LUA_HISTORIES", 8)
	w := startTwins(t)
	fast, slow := map[string]int{}, map[string]int{}
	for seed := range uint64(histories) {
		w.walkHolds(seed, fast, slow)
		w.server.Do("FLUSHALL")
	}
	for p, n := range w.count {
		if p.status == held && p.fast {
			fast[fmt.Sprintf("decide %v, patched %v", p.kind, p.patched)] += n
		}
	}
	t.Log("fast", fast, "slow", slow)
	for of, atLeast := range map[string]int{
		"reserve": 2, "reserve, patched": 1, "settle": 2, "settle, patched": 2,
		"reserve to forget": 2, "reserve to forget, patched": 1,
		"decide RL.SLIDE, patched false": 3, "decide RL.SLIDE, patched true": 3,
		"decide, denied, patched": 1, "reserve, denied": 1, "reserve, denied, patched": 1,
	} {
		require.Greater(t, fast[of], atLeast*histories, of)
	}
	require.Positive(t, fast["decide RL.COUNTER, patched false"]+fast["decide RL.COUNTER, patched true"])
	for _, of := range []string{"reserve", "settle"} {
		require.Greater(t, slow[of]+slow[of+", patched"], 5*histories, of)
	}
}

// held is the status of a reply about a key with held units.
const held wire.Status = 4

func (w *twins) walkHolds(seed uint64, fast, slow map[string]int) {
	w.t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	type reservation struct {
		id   string
		cost int64
	}
	var out []reservation
	window := limit.Window{Limit: []int64{10, 100, 1000, 200_000}[seed/2%4], Length: 1000 * (1 + rng.Int64N(100))}
	ttl, clock := max(window.Length/[]int64{1, 10, 100}[seed%3], 50), base
	if seed%5 == 4 { // the grid of the log is wider than the TTL
		window.Length, ttl = 10_000_000_000, 60
	}
	mixed := seed/3%3 == 2 // the record has other states, too
	if seed%2 == 1 {       // a log that is too long for an inline record
		r := request(limit.Slide, limit.Window{Limit: []int64{120, 1000}[rng.IntN(2)], Length: 100_000})
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
		few := window.Limit == 10 && rng.IntN(8) > 0 // nothing is charged, so that the held units alone reach the limit
		switch n := rng.IntN(10); {
		case n < 2 && few:
		case n < 2:
			if w.decide(clock, r, 0, 1).Granted == 0 {
				count("decide, denied", w.last.fast)
			}
		case n == 2:
			reply, _ := w.hold(lua.Admit, key, clock, wire.AdmitArgs(once(r, fmt.Sprint("once", rng.IntN(50)))))
			require.NotEmpty(w.t, reply)
		case n < 7:
			id, lasts := fmt.Sprint("id", i), ttl
			if rng.IntN(20) == 0 {
				id, lasts = fmt.Sprint("id", rng.IntN(i+1)), ttl/2
			}
			release := (seed%3 == 1) != (rng.IntN(50) == 0)
			r = with(r, id, lasts, release)
			reply, wasFast := w.hold(lua.Admit, key, clock, wire.AdmitArgs(r))
			a, err := wire.DecodeAdmit(reply, r)
			require.NoError(w.t, err)
			switch {
			case a.Granted == 0:
				count("reserve, denied", wasFast)
			case !a.Again:
				if release {
					count("reserve to forget", wasFast)
				} else {
					count("reserve", wasFast)
				}
				out = append(out, reservation{id, r.Cost})
			}
		case len(out) > 0:
			at := rng.IntN(len(out))
			settled := out[at]
			cost := rng.Int64N(settled.cost + 1)
			if few {
				cost = 0
			}
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

// A denial reports when there is room: when charged units leave the window, or when held units that lapse do. Units that are
// released when they lapse are left to the slow path.
func TestDenialsBesideHeldUnits(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	for _, release := range []bool{false, true} {
		ask := func(cost int64) *engine.Request {
			r := request(limit.Slide, limit.Window{Limit: 10, Length: 60_000})
			r.Cost = cost
			return r
		}
		clock, key := base, storedKey(ask(1), 0)
		reserve := func(cost int64, id string, ttl int64) (wire.Admitted, bool) {
			clock++
			r := with(ask(cost), id, ttl, release)
			reply, wasFast := w.hold(lua.Admit, key, clock, wire.AdmitArgs(r))
			a, err := wire.DecodeAdmit(reply, r)
			require.NoError(t, err)
			return a, wasFast
		}
		w.decide(clock, ask(2), 0, 1)
		reserve(4, "a", 1000)
		reserve(3, "b", 5000)
		for cost := int64(2); cost <= 10; cost++ {
			a, wasFast := reserve(cost, "denied", 500)
			require.Zero(t, a.Granted, cost)
			require.Equal(t, !release, wasFast, cost)
			require.Zero(t, w.decide(clock, ask(cost), 0, 1).Granted, cost)
			require.Equal(t, !release && cost <= 3, w.last.fast, "%d: only two units are charged", cost)
		}
		w.server.Do("FLUSHALL")
	}
}

// A hold is left to the slow path if its log was charged later than the clock, or has ended.
func TestHoldsBesideALogOfAnotherTime(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	r := request(limit.Slide, limit.Window{Limit: 10, Length: 1000})
	key := storedKey(r, 0)
	settled := func(charged, held, at int64) (wasFast bool) {
		t.Helper()
		w.server.Do("FLUSHALL")
		if charged < held {
			w.decide(base+charged, r, 0, 1)
		}
		w.hold(lua.Admit, key, base+held, wire.AdmitArgs(with(r, "a", 1000, false)))
		if charged > held {
			w.decide(base+charged, r, 0, 1)
		}
		s := &engine.Request{Op: engine.OpSettle, Hold: &engine.Hold{ID: engine.DigestOf([]byte("a"))}}
		reply, wasFast := w.hold(lua.Settle, key, base+at, wire.SettleArgs(s))
		require.EqualValues(t, 1, reply[0], "settled")
		return wasFast
	}
	require.True(t, settled(20, 10, 30))
	require.False(t, settled(20, 10, 15), "the clock stepped back")
	require.True(t, settled(0, 900, 1000))
	require.False(t, settled(0, 900, 1001), "the log has ended")
}

// The paths of holds also agree for RL.ACQUIRE and RL.RELEASE, of any number of leases.
func TestPathsOfLeasesAgreeOverRandomHistories(t *testing.T) {
	t.Parallel()
	w := startTwins(t)
	seen := map[string]int{}
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 0))
		slots, clock, ttl := []int64{3, 100}[seed%2], base, int64(1000)
		var out []string
		for i := range 300 {
			clock += rng.Int64N(40) - 2
			id := fmt.Sprint("id", i)
			if rng.IntN(10) == 0 {
				id = fmt.Sprint("id", rng.IntN(i+1)) // perhaps a renewal
			}
			r := acquire(slots, 1+rng.Int64N(2), ttl/(1+rng.Int64N(3)), id)
			if rng.IntN(50) == 0 {
				r.Windows[0].Limit++
			}
			key, count := storedKey(r, 0), func(of string, wasFast bool) { seen[fmt.Sprintf("%s, fast %v", of, wasFast)]++ }
			if len(out) == 0 || rng.IntN(5) < 3 {
				reply, wasFast := w.hold(lua.Admit, key, clock, wire.AdmitArgs(r))
				a, err := wire.DecodeAdmit(reply, r)
				require.NoError(t, err)
				switch {
				case a.Granted == 0:
					count("denied", wasFast)
				case !a.Again:
					count("acquired", wasFast)
					out = append(out, id)
				}
				continue
			}
			at := rng.IntN(len(out))
			release := &engine.Request{Op: engine.OpSettle, Spec: limit.Spec{Kind: limit.Concurrency}, Hold: &engine.Hold{ID: engine.DigestOf([]byte(out[at]))}}
			out = append(out[:at], out[at+1:]...)
			reply, wasFast := w.hold(lua.Settle, key, clock, wire.SettleArgs(release))
			if reply[0] == 1 {
				count("released", wasFast)
			}
			if patched(w.stored(key).text) {
				count("patched", wasFast)
			}
		}
		w.server.Do("FLUSHALL")
	}
	t.Log(seen)
	for _, what := range []string{"acquired, fast true", "acquired, fast false", "released, fast true", "released, fast false", "denied, fast false", "patched, fast true"} {
		require.Positive(t, seen[what], what)
	}
}
