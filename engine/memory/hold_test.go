package memory

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func reserve(key string, most, window, cost int64, id any, ttl int64) engine.Request {
	r := conformance.Slide(key, most, window, cost)
	r.Hold = &engine.Hold{ID: engine.DigestOf(fmt.Append(nil, id)), TTL: ttl}
	return r
}

func acquire(key string, slots int64, id any, ttl int64) engine.Request {
	r := reserve(key, slots, 0, 1, id, ttl)
	r.Kind = limit.Concurrency
	return r
}

func ended(r engine.Request, cost int64) engine.Request {
	r.Op, r.Cost = engine.OpSettle, cost
	return r
}

// The memory of holds and ids is accounted for while they exist, and is freed however they end.
func TestHoldsAreAccountedFor(t *testing.T) {
	e, clock := setClock(t, Config{})
	rng := rand.New(rand.NewPCG(3, 1))
	check := func(step int) {
		t.Helper()
		var sum int64
		for i := range e.stripes {
			h := &e.stripes[i]
			books := 0
			for _, k := range h.keys {
				sum += k.bytes()
				if k.book {
					books++
					require.False(t, h.books[k].Empty())
					sum += h.books[k].Bytes() + bookBytes
				}
			}
			require.Len(t, h.books, books)
		}
		require.Equal(t, sum, e.Memory(), "step %d", step)
	}
	for step := range 20_000 {
		key := fmt.Sprint("k", rng.IntN(20))
		r := reserve(key, 50, 1000<<rng.IntN(4), 1+rng.Int64N(3), rng.IntN(10), 1+rng.Int64N(3000))
		switch rng.IntN(8) {
		case 0:
			r.Hold.Once = true
		case 1:
			r = acquire(key, 5, rng.IntN(10), 1+rng.Int64N(3000))
		case 2, 3:
			r = ended(r, rng.Int64N(4))
		case 4:
			r = ended(acquire(key, 5, rng.IntN(10), 0), 0)
		case 5:
			r.Hold = nil
		case 6:
			r.Hold.Release = true
		case 7:
			if rng.IntN(10) == 0 {
				r = conformance.Reset(key)
			}
		}
		require.NoError(t, conformance.Ask(e, r).Err)
		if rng.IntN(4) == 0 {
			results := and(e, conformance.Slide(key, 50, 1000<<rng.IntN(4), 1), conformance.Slide("other", 50, 60_000, rng.Int64N(2)))
			require.NoError(t, results[0].Err)
		}
		*clock += rng.Int64N(200)
		if rng.IntN(20) == 0 {
			e.sweepAll(*clock)
		}
		if step%50 == 0 {
			check(step)
		}
	}
	*clock += 100_000
	e.sweepAll(*clock)
	*clock += 100_000
	e.sweepAll(*clock)
	require.Zero(t, e.Keys())
	require.Zero(t, e.Memory())
}

// A request that exceeds a bound of one key's ids or holds is an error that holds and charges nothing, until some of these
// have expired.
func TestOneKeyRemembersSoMuch(t *testing.T) {
	for _, c := range []struct {
		what string
		most int
		err  error
		ask  func(i int) engine.Request
	}{
		{"reservations", engine.MaxHolds, engine.ErrHolds, func(i int) engine.Request { return reserve("k", 1e9, 60_000, 1, i, 5000) }},
		{"leases", engine.MaxSlotHolds, engine.ErrSlotHolds, func(i int) engine.Request { return acquire("k", 1e9, i, 5000) }},
		{"ids", engine.MaxIDs, engine.ErrIDs, func(i int) engine.Request {
			r := reserve("k", 1e9, 5000, 1, i, 0)
			r.Hold.Once = true
			return r
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			before := heapBytes()
			e, clock := setClock(t, Config{})
			for i := range c.most {
				res := conformance.Ask(e, c.ask(i))
				require.NoError(t, res.Err)
				require.True(t, res.Allowed)
			}
			used, held := e.Memory(), heapBytes()-before
			require.InEpsilon(t, held, used, 0.2)
			t.Logf("%d bytes each", used/int64(c.most))
			require.Less(t, used/int64(c.most), int64(450))
			require.ErrorIs(t, conformance.Ask(e, c.ask(c.most)).Err, c.err)
			require.True(t, conformance.Ask(e, c.ask(0)).Again, "a known one answers")
			require.Equal(t, used, e.Memory())
			for _, s := range conformance.Ask(e, conformance.Inspect("k")).States {
				require.EqualValues(t, c.most, s.Used+s.Held)
			}
			*clock += 5100
			res := conformance.Ask(e, c.ask(c.most))
			require.NoError(t, res.Err)
			require.True(t, res.Allowed)
			e.sweepAll(*clock + 60_001) // the janitor's next visit
			for range 100 {
				*clock++
				e.sweepAll(*clock + 60_001)
			}
			require.Less(t, e.Memory(), used/10, "what has ended is forgotten")
		})
	}
}

// Settled reservations are remembered while they may be retried, and their number is bounded, too.
func TestSettledReservationsAreBounded(t *testing.T) {
	e, _ := setClock(t, Config{})
	for i := range engine.MaxIDs {
		r := reserve("k", 10, 60_000, 1, i, 5000)
		require.True(t, conformance.Ask(e, r).Allowed)
		require.Equal(t, engine.Settlement{Settled: true, Returned: 1}, conformance.Ask(e, ended(r, 0)).Settled)
	}
	require.ErrorIs(t, conformance.Ask(e, reserve("k", 10, 60_000, 1, "one more", 5000)).Err, engine.ErrHolds)
}

// The number of windows that are charged or held is bounded, however they came to be.
func TestWindowsWithHoldsAreBounded(t *testing.T) {
	for _, c := range []struct {
		name string
		fill func(e *Engine, clock *int64, i int64) error
	}{
		{"held", func(e *Engine, _ *int64, i int64) error {
			return conformance.Ask(e, reserve("k", 10, 60_000+i, 1, i, 5000)).Err
		}},
		{"charged", func(e *Engine, _ *int64, i int64) error {
			return conformance.Ask(e, conformance.Slide("k", 10, 60_000+i, 1)).Err
		}},
		{"lapsed", func(e *Engine, clock *int64, i int64) error {
			*clock += 2
			return conformance.Ask(e, reserve("k", 10, 60_000+i, 1, i, 1)).Err
		}},
		{"settled", func(e *Engine, _ *int64, i int64) error {
			r := reserve("k", 10, 60_000+i, 1, i, 5000)
			err := conformance.Ask(e, r).Err
			conformance.Ask(e, ended(r, 1))
			return err
		}},
		{"held and charged", func(e *Engine, _ *int64, i int64) error {
			conformance.Ask(e, conformance.Slide("k", 10, 60_000+i, 1))
			return conformance.Ask(e, reserve("k", 10, 60_000+i, 1, i, 5000)).Err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, clock := setClock(t, Config{})
			for i := range int64(engine.MaxStates) {
				require.NoError(t, c.fill(e, clock, i))
			}
			require.ErrorIs(t, c.fill(e, clock, -1), engine.ErrStates)
			require.ErrorIs(t, conformance.Ask(e, reserve("k", 10, 50_000, 1, "one more", 5000)).Err, engine.ErrStates)
			require.ErrorIs(t, conformance.Ask(e, conformance.Slide("k", 10, 50_000, 1)).Err, engine.ErrStates)
			once := reserve("k", 10, 50_000, 1, "once", 0)
			once.Hold.Once = true
			require.ErrorIs(t, conformance.Ask(e, once).Err, engine.ErrStates)
			require.Len(t, conformance.Ask(e, conformance.Inspect("k")).States, engine.MaxStates)
			require.NoError(t, conformance.Ask(e, reserve("k", 10, 60_000, 1, "another", 5000)).Err)
			require.NoError(t, conformance.Ask(e, conformance.Slide("k", 10, 60_000, 1)).Err)
		})
	}
}

// A hold that does not fit into memory gets its FAIL policy and holds nothing. An existing hold can still be settled.
func TestHoldsWhenMemoryIsFull(t *testing.T) {
	e, _ := setClock(t, Config{})
	r := reserve("k", 10, 60_000, 2, "a", 5000)
	require.True(t, conformance.Ask(e, r).Allowed)
	e.cfg.MaxMemory = e.Memory()
	b := reserve("k", 10, 60_000, 2, "b", 5000)
	b.Fail = engine.FailOpen
	res := conformance.Ask(e, b)
	require.Equal(t, engine.FailOpen, res.Fail)
	require.EqualValues(t, -1, res.Remaining)
	require.EqualValues(t, 2, conformance.Ask(e, conformance.Inspect("k")).States[0].Held)
	require.Equal(t, engine.Settlement{Settled: true, Charged: 3, Overrun: 1}, conformance.Ask(e, ended(r, 3)).Settled)
}

// Lapses that a request removes are counted, even if there is no memory for the request.
func TestLapsesAreCountedWhenMemoryIsFull(t *testing.T) {
	for name, r := range map[string]engine.Request{
		"charge": conformance.Slide("k", 10, 1000, 1), "hold": reserve("k", 10, 1000, 1, "b", 5000),
		"once": {Key: []byte("k"), Spec: conformance.Slide("k", 10, 1000, 1).Spec, Hold: &engine.Hold{ID: engine.DigestOf([]byte("c")), Once: true}},
	} {
		t.Run(name, func(t *testing.T) {
			e, clock := setClock(t, Config{})
			require.True(t, conformance.Ask(e, reserve("k", 10, 60_000, 2, "a", 100)).Allowed)
			*clock += 200
			e.cfg.MaxMemory = 1
			lapsed := int64(0)
			for range 2 {
				res := conformance.Ask(e, r)
				require.Equal(t, engine.FailClosed, res.Fail)
				lapsed += res.Lapsed
			}
			e.cfg.MaxMemory = 0
			res := conformance.Ask(e, r)
			require.True(t, res.Allowed)
			require.EqualValues(t, 1, lapsed+res.Lapsed)
		})
	}
}

// A key expires with the last of its holds and ids, even if it would once have expired much later.
func TestKeyEndsWithItsHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := Open(Config{})
		long := acquire("k", 5, "long", 86_400_000)
		require.True(t, conformance.Ask(e, long).Allowed)
		require.True(t, conformance.Ask(e, acquire("k", 5, "short", 1000)).Allowed)
		require.True(t, conformance.Ask(e, ended(long, 0)).Settled.Settled)
		time.Sleep(62 * time.Second) // in the test's own time: a visit of the janitor
		require.Zero(t, e.Keys())
		require.Zero(t, e.Memory())
		require.NoError(t, e.Close())
	})
}

// RL.RESET forgets holds and ids.
func TestResetForgetsHolds(t *testing.T) {
	e, _ := setClock(t, Config{})
	r := reserve("k", 1, 60_000, 1, "a", 5000)
	require.True(t, conformance.Ask(e, r).Allowed)
	require.False(t, conformance.Ask(e, conformance.Slide("k", 1, 60_000, 1)).Allowed)
	require.True(t, conformance.Ask(e, conformance.Reset("k")).Reset)
	require.Zero(t, e.Memory())
	require.False(t, conformance.Ask(e, ended(r, 1)).Settled.Settled)
	res := conformance.Ask(e, r)
	require.True(t, res.Allowed)
	require.False(t, res.Again)
}
