package limit_test

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/rlproxy/rlproxy/engine/conformance/model"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// The states of every algorithm count what the definition counts, at every us, and say to the ms when there is room, when
// nothing counts any more, and for how long they matter.
func TestStatesCountAsDefined(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	among := func(from ...int64) int64 { return from[rng.IntN(len(from))] }
	for kind := range limit.Kind(limit.Kinds) {
		if !kind.Known() || kind == limit.Concurrency {
			continue
		}
		for range 600 {
			s := limit.Spec{Kind: kind, N: 1, Cost: 1, Param: among(1, 1, 2, 3, 7, 999, limit.MaxLimit), Manner: among(0, 1)}
			w := limit.Window{Limit: among(1, 3, 20, 70_000, limit.MaxLimit), Length: among(1, 7, 50, 1000, 1_000_000, limit.MaxWindow)}
			if kind.Rated() {
				s.Param, s.Manner, w.Length = 0, among(1, 333, 1_000_000, 70_000_001), 0
			} else if !s.ParamFits(w) {
				continue
			}
			if us, _ := limit.FillTime(w.Limit, w.Length, max(s.Param, 1)); kind == limit.Bucket && us >= limit.MaxFill {
				continue // the parser refuses it
			}
			s.Windows[0] = w
			h := &counted{t: t, of: model.Window{Kind: kind, Length: w.Length, Param: s.Param}, us: 4102444800000000 + rng.Int64N(1e12)}
			h.state.Init(&s, w)
			for i := 0; i < 30 && h.us < 7e15; i++ { // the year 2191
				h.us += rng.Int64N(among(2, 1000, 3000, 1_000_000, w.Length*1000+1))
				if len(h.all) > 0 && rng.IntN(4) == 0 { // to the ms at which a usage ends, or a us before
					h.us = (h.state.Until()+1)*1000 - among(0, 1, 1000)
				}
				h.check(&s, rng.Int64N(min(w.Limit, 1+rng.Int64N(w.Limit))))
				h.charge(&s, 1+rng.Int64N(min(among(1, 5, w.Limit), 1_000_000_000)))
			}
		}
	}
}

// counted is a state, and what was charged to it.
type counted struct {
	t     *testing.T
	of    model.Window
	us    int64
	state limit.State
	all   []model.Charge
}

// now sets the clock of a spec, and returns the time by which the state is asked, and the us of it.
func (h *counted) now(s *limit.Spec) (now, us int64) {
	s.Clock = h.us * 1000
	now = s.Now(h.us/1000, h.us%1000*1000, h.state.Last())
	if s.Kind.Rated() {
		return now, h.us
	}
	return now, max(h.us, now*1000)
}

// charge charges units if there is room.
func (h *counted) charge(s *limit.Spec, units int64) {
	now, us := h.now(s)
	r := h.state.Read(now, s)
	if s.Cost = units; s.Fits(s.Windows[0], r.Used, 1) == 0 {
		return
	}
	h.state.Charge(now, s, s.Windows[0], 1, r)
	h.all = append(h.all, model.Charge{At: us, Units: units, Limit: s.Windows[0].Limit, Manner: s.Manner})
}

// check compares what the state says with the definition; most is a number of units for which there may be room.
func (h *counted) check(s *limit.Spec, most int64) {
	now, us := h.now(s)
	used := func(us int64) int64 { return model.Used(h.of, h.all, us, s.Manner) }
	r := h.state.Read(now, s)
	require.Equal(h.t, used(us), r.Used, "%+v at %d: %+v", s, us, h.all)
	first := func(at, most int64) { // at is the first ms at which at most so many count, or the last before if times are rounded down
		if s.Kind.Rated() {
			at += min(used((at-us/1000)*1000+us)-most, 1)
		}
		in := at - us/1000
		require.LessOrEqual(h.t, used(us+in*1000), most, "%+v at %d: %+v", s, us, h.all)
		if in > 0 {
			require.Greater(h.t, used(us+(in-1)*1000), most, "%+v at %d: %+v", s, us, h.all)
		}
	}
	if r.Used > 0 {
		first(h.state.EmptyAt(now, s), 0)
	}
	if r.Used > most {
		first(h.state.RoomAt(now, most, s, r), most)
	}
	if len(h.all) == 0 {
		return
	}
	until := h.state.Until()
	require.Positive(h.t, model.Used(h.of, h.all, until*1000, limit.Strict), "%+v", h.all)
	require.Zero(h.t, model.Used(h.of, h.all, (until+1)*1000, limit.Strict), "%+v", h.all)
}

// The parser asks how long a bucket takes to fill before it refuses one that takes too long.
func TestFillTime(t *testing.T) {
	for _, by := range []int64{1, 2, 7, 1_714_252, 1_714_253, 1_714_254, 6_857_000_000, 7_000_000_000, limit.MaxLimit} {
		for _, n := range []int64{1, 3, limit.MaxLimit} {
			for _, window := range []int64{1, 1000, limit.MaxWindow} {
				q, r := new(big.Int).DivMod(big.NewInt(0).Mul(big.NewInt(n), big.NewInt(window*1000)), big.NewInt(by), new(big.Int))
				us, part := limit.FillTime(n, window, by)
				if q.Cmp(big.NewInt(limit.MaxFill)) >= 0 {
					require.EqualValues(t, limit.MaxFill, us)
					continue
				}
				require.Equal(t, []int64{q.Int64(), r.Int64()}, []int64{us, part}, "%d tokens, %d in %d ms", n, by, window)
			}
		}
	}
}
