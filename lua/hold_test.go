package lua_test

import (
	"context"
	"strconv"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
	"github.com/rlproxy/rlproxy/shard/lease"
	"github.com/stretchr/testify/require"
)

// RL.RESERVE, RL.SETTLE and RL.SLIDE agree about one window, and a settled hold leaves nothing behind but its id.
func TestReserveAndSettle(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	for _, scripted := range []bool{false, true} {
		t.Run(map[bool]string{false: "functions", true: "script"}[scripted], func(t *testing.T) {
			h := shared.on(t)
			h.scripted = scripted
			got := h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false))
			deadline := int64(60_000)
			deadline += (512 - (base+deadline)%512) % 512
			require.Equal(t, five{1, 10, 6, 0, deadline + 60_001}, got)
			require.Equal(t, deadline, h.kept().idsTo)
			require.Equal(t, deadline+60_000, h.kept().until)
			require.Equal(t, five{1, 10, 4, 0, deadline + 60_001}, h.decide(slide(2, 10, 60_000)))
			require.Equal(t, five{0, 10, 4, 60_001, deadline + 60_001}, h.decide(slide(5, 10, 60_000)))

			h.at = 100
			before := h.kept()
			require.Equal(t, got, h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false)), "again")
			require.Equal(t, got, h.reserve(with(slide(7, 5, 1000, 3, 2000), "a", 500, true)), "again, with other numbers")
			require.Equal(t, int64(0), h.reserve(with(slide(5, 10, 60_000), "b", 60_000, false))[0])
			require.Equal(t, int64(1), h.reserve(with(slide(0, 10, 60_000), "c", 60_000, false))[0], "a request without cost")
			require.Equal(t, before, h.kept(), "a denial, a request without cost and a known id write nothing")

			s, _ := h.settle(limit.Slide, "a", 3)
			require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Returned: 1}, s)
			require.Equal(t, five{0, 10, 5, 59_901, 60_001}, h.decide(slide(7, 10, 60_000)), "2 at 0 ms and 3 at 100 ms")
			before = h.kept()
			s, _ = h.settle(limit.Slide, "a", 3)
			require.Equal(t, engine.Settlement{Settled: true, Again: true, Charged: 3, Returned: 1}, s)
			s, _ = h.settle(limit.Slide, "a", 4)
			require.Equal(t, engine.Settlement{}, s)
			s, _ = h.settle(limit.Slide, "unknown", 4)
			require.Equal(t, engine.Settlement{}, s)
			s, _ = h.settle(limit.Concurrency, "a", 3)
			require.Equal(t, engine.Settlement{}, s, "kinds of ids do not see each other")
			require.Equal(t, got, h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false)), "settled, and known")
			require.Equal(t, before, h.kept())
			require.Equal(t, byte(1), before.record[2], "nothing is held: one state")
			require.EqualValues(t, 60_100, before.until)
		})
	}
}

// A hold that is not settled is charged or forgotten at its deadline.
func TestHoldsLapse(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	t.Run("charged", func(t *testing.T) {
		h := shared.on(t)
		require.Equal(t, five{1, 10, 6, 0, 50 + 1001}, h.reserve(with(slide(4, 10, 1000), "a", 50, false)))
		require.EqualValues(t, 50+1000, h.kept().until)
		require.Equal(t, five{1, 10, 3, 0, 60 + 1001}, h.reserve(with(slide(3, 10, 1000), "b", 60, false)))
		require.Equal(t, five{0, 10, 3, 50 + 1001, 60 + 1001}, h.decide(slide(7, 10, 1000)))
		h.at = 49
		s, _ := h.settle(limit.Slide, "b", 3)
		require.True(t, s.Settled)
		h.at = 50
		before := h.kept()
		require.Equal(t, five{0, 10, 3, 999 + 1, 50 + 1001 - 50}, h.decide(slide(4, 10, 1000)), "3 at 49 ms, 4 at 50 ms")
		require.Equal(t, before, h.kept(), "a denial removes lapsed holds only in memory")
		a, _ := h.answer(slide(4, 10, 1000))
		require.True(t, a.Held)
		require.Zero(t, a.Lapsed, "the call that writes the record reports them")
		s, lapsed := h.settle(limit.Slide, "a", 1)
		require.Equal(t, engine.Settlement{}, s)
		require.Zero(t, lapsed)
		require.Equal(t, []engine.Inspection{{Kind: limit.Slide, Window: 1000, Param: 1, Used: 7, Limit: 10, Remaining: 3, Node: "node",
			TTL: 1001, Rate: 2, Lapsed: 1}}, h.inspect())
		a, _ = h.answer(slide(3, 10, 1000))
		require.EqualValues(t, 1, a.Granted)
		require.EqualValues(t, 1, a.Lapsed)
		require.EqualValues(t, 50+1000, h.kept().until)
		h.at = 49 + 1001
		require.Equal(t, five{1, 10, 2, 0, 1001}, h.decide(slide(1, 10, 1000)), "the 3 are gone, the 4 are not")
		h.at = 50 + 1001
		require.Equal(t, five{1, 10, 8, 0, 1001}, h.decide(slide(1, 10, 1000)))
		require.Equal(t, byte(1), h.kept().record[2], "nothing is held, nor has lapsed")
		require.Equal(t, five{1, 10, 4, 0, 50 + 1001}, h.reserve(with(slide(4, 10, 1000), "a", 50, false)), "a lapsed id is a new one")
	})
	t.Run("charged first", func(t *testing.T) {
		h := shared.on(t)
		h.reserve(with(slide(4, 10, 1000), "a", 50, false))
		h.at = 50
		require.Equal(t, five{1, 10, 5, 0, 1001}, h.decide(slide(1, 10, 1000)))
		require.Equal(t, byte(1), h.kept().record[2], "the lapse created the charged state")
	})
	t.Run("charged at one step of a grid", func(t *testing.T) {
		h := shared.on(t)
		const grid = 482_520 // ms, of the longest window and a large limit
		h.at = grid - base%grid
		for i := range int64(3) {
			h.at++
			h.reserve(with(slide(1, more, 366*day), strconv.FormatInt(i, 10), 50, false))
		}
		h.at += 100
		h.decide(slide(1, more, 366*day))
		require.Len(t, h.kept().record, 3+16+37+12, "one entry")
	})
	t.Run("released", func(t *testing.T) {
		h := shared.on(t)
		require.Equal(t, five{1, 10, 6, 0, 50}, h.reserve(with(slide(4, 10, 1000), "a", 50, true)))
		require.Equal(t, five{1, 10, 3, 0, 60}, h.reserve(with(slide(3, 10, 1000), "b", 60, true)))
		require.Equal(t, five{0, 10, 3, 50, 60}, h.decide(slide(7, 10, 1000)))
		require.Equal(t, five{0, 10, 3, 60, 60}, h.decide(slide(8, 10, 1000)))
		require.EqualValues(t, 59, h.kept().until)
		h.at = 59
		require.Equal(t, five{1, 10, 6, 0, 1001}, h.decide(slide(1, 10, 1000)))
		h.at = 60
		require.Equal(t, five{1, 10, 8, 0, 1001}, h.decide(slide(1, 10, 1000)))
	})
	t.Run("both kinds and a log", func(t *testing.T) {
		h := shared.on(t)
		h.decide(slide(2, 10, 1000))
		h.reserve(with(slide(2, 10, 1000), "a", 100, false)) // until 1101
		h.reserve(with(slide(2, 10, 1000), "b", 90, true))   // until 90
		h.at = 10
		h.decide(slide(2, 10, 1000)) // until 1011
		for cost, retry := range map[int64]int64{3: 80, 4: 80, 5: 1001 - 10, 6: 1001 - 10, 7: 1001, 8: 1001, 9: 1101 - 10} {
			require.Equal(t, five{0, 10, 2, retry, 1101 - 10}, h.decide(slide(cost, 10, 1000)), cost)
		}
	})
}

// For as long as the longest window, the same id is charged only once.
func TestOnceIsChargedOnce(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	for _, kind := range conformance.Kinds(limit.Kind.Windowed) {
		t.Run(kind.String(), func(t *testing.T) {
			h := shared.on(t)
			r := asking(kind, 3, 10, 1000, 8, 2000)
			first := h.admit(once(r, "a"))
			require.False(t, first.Again)
			require.EqualValues(t, 1, first.Granted)
			h.at = 2000
			before := h.kept()
			again := h.admit(once(r, "a"))
			require.True(t, again.Again)
			require.Equal(t, told(first.Decision()), told(again.Decision()))
			require.False(t, h.admit(once(asking(kind, 0, 10, 1000), "a")).Again, "a request without cost")
			require.Equal(t, before, h.kept())
			h.at = 2001
			again = h.admit(once(r, "a"))
			require.False(t, again.Again)
			require.EqualValues(t, 1, again.Granted)
		})
	}
}

// A lease of RL.ACQUIRE is renewed, released, or ends by itself.
func TestLeasesAreRenewedReleasedOrEnd(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	h := shared.on(t)
	u := func(a wire.Admitted) limit.Usage { return a.Usages[0] }
	a := h.admit(acquire(3, 1, 50, "a"))
	require.EqualValues(t, 1, a.Granted)
	require.Equal(t, limit.Usage{Empty: 50}, u(a))
	require.Equal(t, limit.Usage{Used: 1, Empty: 70}, u(h.admit(acquire(3, 2, 70, "b"))))
	before := h.kept()
	denied := h.admit(acquire(3, 1, 100, "c"))
	require.Zero(t, denied.Granted)
	require.Equal(t, limit.Usage{Used: 3, Room: 50, Empty: 70}, u(denied))
	require.True(t, denied.Held)
	require.Equal(t, limit.Usage{Used: 3, Room: 70, Empty: 70}, u(h.admit(acquire(3, 2, 100, "c"))))
	require.Equal(t, before, h.kept())
	require.EqualValues(t, 69, before.until)

	h.at = 10
	again := h.admit(acquire(2, 5, 80, "a"))
	require.True(t, again.Again)
	require.EqualValues(t, 1, again.Spec.Cost, "it keeps its cost")
	require.EqualValues(t, 2, again.Spec.Windows[0].Limit)
	require.Equal(t, limit.Usage{Used: 2, Empty: 80}, u(again))
	require.Equal(t, []bool{true, false, true}, h.renew(100, "b", "c", "a"))
	require.EqualValues(t, 109, h.kept().until)
	require.Equal(t, []engine.Inspection{{Kind: limit.Concurrency, Param: 1, Limit: 2, Node: "node", TTL: 100, Held: 3, Holds: 2, Rate: h.inspect()[0].Rate}}, h.inspect())

	s, _ := h.settle(limit.Slide, "a", 0)
	require.False(t, s.Settled)
	s, _ = h.settle(limit.Concurrency, "b", 0)
	require.Equal(t, engine.Settlement{Settled: true, Returned: 2}, s)
	s, _ = h.settle(limit.Concurrency, "b", 0)
	require.False(t, s.Settled, "it has ended, and is not remembered")
	require.Equal(t, []bool{false, true}, h.renew(100, "b", "a"))
	h.at = 110
	require.Equal(t, []bool{false}, h.renew(100, "a"), "a renewal never revives")
	require.Equal(t, limit.Usage{Empty: 50}, u(h.admit(acquire(1, 1, 50, "d"))))
	s, _ = h.settle(limit.Concurrency, "d", 0)
	require.True(t, s.Settled)
	h = h.on(t)
	h.admit(acquire(3, 1, 50, "a"))
	require.NotEqual(t, nothing, h.kept())
	h.settle(limit.Concurrency, "a", 0)
	require.Equal(t, nothing, h.kept())
}

// Two versions of the library see each other's holds.
func TestTwoVersionsShareHolds(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	first := h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false))
	hash, other := strings.TrimPrefix(lua.Library.Name, "rlproxy_"), "0123456789ab"
	h.server.Do("FUNCTION", "LOAD", strings.ReplaceAll(lua.Library.Source, hash, other))
	h.server.Do("FUNCTION", "DELETE", lua.Library.Name)
	r := with(slide(4, 10, 60_000), "a", 60_000, false)
	admit, settle := *lua.Admit, *lua.Settle
	admit.Name, settle.Name = strings.Replace(admit.Name, hash, other, 1), strings.Replace(settle.Name, hash, other, 1)
	a, err := wire.DecodeAdmit(h.must(&admit, wire.AdmitArgs(r)), r)
	require.NoError(t, err)
	require.True(t, a.Again)
	require.Equal(t, first, told(a.Decision()))
	s, _, err := wire.DecodeSettle(h.must(&settle, wire.SettleArgs(r)))
	require.NoError(t, err)
	require.True(t, s.Settled)
}

// RL.RESET forgets holds and ids.
func TestResetForgetsHolds(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false))
	h.admit(acquire(3, 1, 50, "a"))
	require.EqualValues(t, 1, h.reset())
	require.Equal(t, nothing, h.kept())
	s, _ := h.settle(limit.Slide, "a", 3)
	require.False(t, s.Settled)
	require.Zero(t, h.reset())

	h.reserve(with(slide(4, 10, 60_000), "a", 60_000, false))
	forgotten := string(wire.Pack(&wire.Forgotten{Forgotten: true}))
	require.Equal(t, forgotten, h.must(lua.Forget, wire.Args(&wire.Forgot{})), "the end of the reset of a split key")
	require.Equal(t, nothing, h.kept())
}

// A multi-key request is charged to all of its keys or to none.
func TestMultiKeyRequestChargesAllKeysOrNone(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	keys, failure := []string{"rl:{a}", "rl:{b}"}, "damaged"
	requests := []engine.Request{*slide(2, 10, 1000), *asking(limit.Counter, 1, 3, 2000)}
	ask := func(apart bool) (granted []int64, all bool) {
		words := []any{"fcall", lua.All.Name, len(keys), keys[0], keys[1], strconv.FormatInt(base+h.at, 10)}
		if apart {
			words = []any{"fcall", lua.All.Name, 0, strconv.FormatInt(base+h.at, 10)}
		}
		for _, spec := range wire.AllArgs(requests) {
			words = append(words, string(spec))
		}
		if apart {
			words = append(words, keys[0], keys[1])
		}
		reply, err := h.server.Client.Do(context.Background(), words...).Text()
		require.NoError(t, err)
		answers, _, all, err := wire.DecodeAll(reply, requests)
		require.NoError(t, err)
		for _, a := range answers {
			if a.Status == wire.Failed {
				require.Contains(t, a.Failure, failure)
				a.Granted = -1
			}
			granted = append(granted, a.Granted)
		}
		return granted, all
	}
	stored := func() []string { return []string{h.server.Do("GET", keys[0]), h.server.Do("GET", keys[1])} }
	for i := range 3 {
		granted, all := ask(i%2 == 0)
		require.Equal(t, []int64{1, 1}, granted)
		require.True(t, all)
	}
	before := stored()
	granted, all := ask(false)
	require.Equal(t, []int64{1, 0}, granted)
	require.False(t, all)
	h.server.Do("SET", keys[1], "x")
	granted, all = ask(true)
	require.Equal(t, []int64{1, -1}, granted)
	require.False(t, all)
	require.Equal(t, []string{before[0], "x"}, stored())

	// The function finds that the record of b ends within its log before it charges a.
	h.server.Do("DEL", keys[1])
	requests[0].Cost, requests[1] = 0, *slide(1, 100, 10_000)
	for h.at = range 90 {
		ask(false)
	}
	requests[0].Cost, failure = 1, "ends within its areas"
	long := stored()[1]
	require.Greater(t, len(long), 90*12)
	for _, cut := range []int{12, 100, 700} {
		h.server.Do("SET", keys[1], long[:len(long)-cut], "KEEPTTL")
		before = stored()
		granted, all = ask(false)
		require.Equal(t, []int64{1, -1}, granted)
		require.False(t, all)
		require.Equal(t, before, stored())
	}
	h.at = 0

	// The function finds that b has no room for another window before it charges a.
	h.server.Do("DEL", keys[1])
	requests[0].Cost = 0
	for i := range int64(65) {
		requests[1] = *slide(1, 100, 10_000+i)
		if i == 64 {
			requests[0].Cost = 1
			before = stored()
			failure = "too many windows"
		}
		granted, all = ask(false)
		require.Equal(t, i < 64, all)
	}
	require.Equal(t, []int64{1, -1}, granted)
	require.Equal(t, before, stored())
}

// A request that exceeds a bound of its key is an error, writes nothing and costs the node little: it looks only at some of the
// key's ids. A denied request is still denied.
func TestBoundsOfHoldsAndIDs(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	unit := shared.unit()
	for name, c := range map[string]struct {
		most    int
		times   float64 // as of dear
		past    error
		request func(id string) *engine.Request
		room    func(h *holder)
	}{
		"reservations": {engine.MaxHolds, 25, engine.ErrHolds, func(id string) *engine.Request {
			return with(slide(1, 1_000_000, 3_600_000), id, 600_000, false)
		}, func(h *holder) { h.settle(limit.Slide, "0", 0) }},
		"settled reservations": {engine.MaxIDs, 50, engine.ErrHolds, func(id string) *engine.Request {
			return with(slide(1, 1_000_000, 3_600_000), id, 600_000, false)
		}, func(h *holder) { h.at = 1_300_000 }},
		"leases": {engine.MaxSlotHolds, 25, engine.ErrSlotHolds, func(id string) *engine.Request {
			return acquire(1_000_000, 1, 600_000, id)
		}, func(h *holder) { h.settle(limit.Concurrency, "0", 0) }},
		"once": {engine.MaxIDs, 40, engine.ErrIDs, func(id string) *engine.Request {
			return once(asking(limit.Fixed, 1, 1_000_000, 600_000), id)
		}, func(h *holder) { h.at = 700_000 }},
	} {
		t.Run(name, func(t *testing.T) {
			h := shared.on(t)
			h.many(c.most, func(i int) *engine.Request { return c.request(strconv.Itoa(i)) }, name == "settled reservations")
			before := h.kept()
			require.Equal(t, c.past, h.refused(c.request("another")))
			h.server.Do("CONFIG", "RESETSTAT")
			h.affordable(&dear{name + ": refused", c.times, true, nil, func(_ *holder, i int) *engine.Request {
				return c.request("x" + strconv.Itoa(i))
			}}, unit)
			require.NotContains(t, h.server.Do("INFO", "commandstats"), "cmdstat_hset")
			if full := c.request("another"); name != "settled reservations" {
				full.Windows[0].Limit = 10
				require.Zero(t, h.admit(full).Granted)
			}
			require.True(t, h.admit(c.request("1")).Again)
			require.Equal(t, before.record, h.kept().record)
			c.room(h)
			require.EqualValues(t, 1, h.admit(c.request("another")).Granted)
			h.reset()
			require.Equal(t, nothing, h.kept())
		})
	}
}

// The ids of a bucket are bounded, so that a client that chooses digests does not make those of others dear.
func TestIDsOfOneBucketAreBounded(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	next := 0
	request := func() *engine.Request { // all ids are in one bucket
		for {
			next++
			if r := once(slide(1, 1_000_000, 60_000), strconv.Itoa(next)); r.Hold.ID[0]&15 == 0 && r.Hold.ID[1] == 0 {
				return r
			}
		}
	}
	for range 96 {
		h.admit(request())
	}
	before := h.kept()
	require.Len(t, before.ids, 2)
	require.Equal(t, engine.ErrIDs, h.refused(request()))
	require.EqualValues(t, 1, h.admit(once(slide(1, 1_000_000, 60_000), "another bucket")).Granted)
	h.at = 60_001
	require.EqualValues(t, 1, h.admit(request()).Granted)
}

// A final cost above the held units is charged in full, up to what a window can count.
func TestOverrunIsCharged(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	for i := range 40 {
		h.reserve(with(slide(1, limit.MaxLimit, 3_600_000, limit.MaxLimit, 7_200_000), strconv.Itoa(i), 60_000, false))
	}
	sum := int64(40)
	for i := range 35 {
		s, _ := h.settle(limit.Slide, strconv.Itoa(i), limit.MaxLimit)
		require.Equal(t, engine.Settlement{Settled: true, Charged: limit.MaxLimit, Overrun: limit.MaxLimit - 1}, s)
		sum += limit.MaxLimit - 1
	}
	before := h.kept()
	_, err := h.ask(lua.Settle, wire.SettleArgs(with(&engine.Request{Spec: limit.Spec{Kind: limit.Slide, Cost: limit.MaxLimit}}, "35", 0, false)))
	require.Equal(t, engine.ErrOverrun, wire.KeyError(err.Error()))
	require.Equal(t, before, h.kept())
	s, _ := h.settle(limit.Slide, "35", 1)
	require.Equal(t, engine.Settlement{Settled: true, Charged: 1}, s)
	for _, state := range h.inspect() {
		require.EqualValues(t, sum, state.Used+state.Held)
		require.EqualValues(t, 4, state.Holds)
	}
}

// What a window of a STRICT RL.COUNTER can count is bounded as without STRICT: by the units that are charged and
// held, of which the previous window keeps its share.
func TestOverrunOfAStrictCounter(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	r := asking(limit.Counter, 1, limit.MaxLimit, 60_000)
	r.Manner = limit.Strict
	h.at = 60_000 - base%60_000
	h.reserve(with(r, "before", 60_000, true))
	s, _ := h.settle(limit.Slide, "before", limit.MaxLimit-10)
	require.True(t, s.Settled)
	h.at += 60_000 + 59_000
	require.EqualValues(t, 1, h.reserve(with(r, "a", 60_000, true))[0])
	s, _ = h.settle(limit.Slide, "a", limit.MaxLimit)
	require.True(t, s.Settled, "a sixtieth of the previous window is left")
}

// Requests with ids get the same replies in one call as in separate calls, whether or not their keys are declared.
func TestEachAnswersAsAlone(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	settle := &engine.Request{Op: engine.OpSettle, Spec: limit.Spec{Cost: 3}, Hold: &engine.Hold{ID: engine.DigestOf([]byte("a"))}}
	requests := []*engine.Request{with(slide(5, 10, 60_000), "a", 1000, false), once(slide(6, 10, 60_000), "b"), settle,
		once(slide(6, 10, 60_000), "b"), once(slide(2, 10, 60_000), "b")}
	run := func(f *lua.Function, args [][]byte, apart bool, keys ...string) string {
		words := wire.KeysArgs(f, keys, strconv.FormatInt(base, 10), args, apart, false)
		reply, err := h.server.Client.Do(context.Background(), words...).Text()
		require.NoError(t, err)
		return reply
	}
	var alone []wire.Each
	for _, r := range requests {
		if r.Op == engine.OpSettle {
			alone = append(alone, wire.Each{Reply: run(lua.Settle, wire.SettleArgs(r), false, stored)})
		} else {
			alone = append(alone, wire.Each{Reply: run(lua.Admit, wire.AdmitArgs(r), false, stored)})
		}
	}
	for _, apart := range []bool{false, true} {
		h.server.Do("FLUSHALL")
		got, err := wire.DecodeEach(run(lua.Each, wire.EachArgs(requests), apart, stored, stored, stored, stored, stored), len(requests))
		require.NoError(t, err)
		require.Equal(t, alone, got, "%v", apart)
	}
	h.server.Do("SET", "rl:{bad}", "nonsense")
	got, err := wire.DecodeEach(run(lua.Each, wire.EachArgs(requests[:2]), false, "rl:{bad}", "rl:{good}"), 2)
	require.NoError(t, err)
	require.Contains(t, got[0].Failure, "RL.RESET removes it")
	require.Empty(t, got[1].Failure)
}

// When the log of a key is too long for an inline record, a hold is added and removed without rewriting the log.
func TestHoldsBesideALongLog(t *testing.T) {
	t.Parallel()
	h := startHolder(t)
	for h.at = range int64(200) {
		h.decide(slide(1, 1000, 60_000))
	}
	h.reserve(with(slide(5, 1000, 60_000), "a", 1000, false))
	h.settle(limit.Slide, "a", 0)
	long := len(h.kept().record)
	require.Greater(t, long, 200*12)
	for _, denied := range []*engine.Request{slide(1000, 1000, 60_000), slide(1000, 1000, 60_000, 1000, 70_000)} { // by the fast path and the slow path
		a, _ := h.answer(denied)
		require.Zero(t, a.Granted)
		require.False(t, a.Held, "nothing is held any more, so the denial may be remembered")
	}
	for i := range 20 {
		h.at += 2
		require.Equal(t, int64(1000-200-i-5), h.reserve(with(slide(5, 1000, 60_000), strconv.Itoa(i), int64(10+i), i%2 == 0))[2])
		s, _ := h.settle(limit.Slide, strconv.Itoa(i), 1)
		require.True(t, s.Settled)
		require.Len(t, h.kept().record, long)
	}
	h.reserve(with(slide(5, 1000, 60_000), "lapses", 10, false))
	h.at += 20
	require.Equal(t, int64(1000-200-20-5-1), h.decide(slide(1, 1000, 60_000))[2])
	h.at += 60_000
	require.Equal(t, int64(998), h.decide(slide(1, 1000, 60_000))[2], "the admission of a minute ago still counts")
}

// The home of a split key remembers the ids that it grants after a shard has refused them.
func TestHomeRemembersIDs(t *testing.T) {
	t.Parallel()
	shared := startHolder(t)
	for name, r := range map[string]*engine.Request{
		"held": with(slide(3, 10, 1000), "a", 500, true), "once": once(slide(3, 10, 1000), "a"),
	} {
		t.Run(name, func(t *testing.T) {
			h := shared.on(t)
			refused := wire.NewLend(&slide(1, 10, 1000).Spec, 2, nil)
			refused.Refusal = &lease.Refusal{Shard: 1, Clock: base, Incarnation: base, Seq: 1}
			h.must(lua.Lend, wire.Args(refused))
			ask := func(r *engine.Request) (*wire.HomeReply, *wire.Admitted) {
				asked := wire.NewLend(&r.Spec, 2, nil)
				asked.ID = string(wire.IDFields(r))
				reply, known, err := wire.DecodeHomeAdmit(h.must(lua.Lend, wire.Args(asked)), r, nil)
				require.NoError(t, err)
				return reply, known
			}
			reply, _ := ask(r)
			require.EqualValues(t, 1, reply.Granted)
			first := r.Decide([]limit.Usage{{Used: reply.Tallies[0].Used, Empty: max(reply.Tallies[0].Empty, reply.Lent[0].Empty[0])}}, reply.Clock, 1, 0)
			require.EqualValues(t, 4, reply.Tallies[0].Own)
			require.EqualValues(t, 4, reply.Tallies[0].Lent)
			_, known := ask(r)
			require.True(t, known.Again)
			require.Equal(t, told(first), told(known.Decision()))
			again := h.admit(r)
			require.True(t, again.Again)
			require.Equal(t, told(first), told(again.Decision()))
			denied := h.admit(with(slide(9, 10, 1000), "b", 500, false))
			require.Zero(t, denied.Granted)
			require.Equal(t, wire.AtHome, denied.Status)
			require.True(t, denied.Undecided)
			require.Equal(t, name == "held", denied.Held)
			s, _ := h.settle(limit.Slide, "a", 1)
			require.Equal(t, name == "held", s.Settled)
			require.Equal(t, map[string]int64{"held": 2, "once": 4}[name], h.inspect()[0].Used)
		})
	}
}
