package advance

import (
	"fmt"
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// homes answers the calls of Balances.
type homes struct {
	Balances
	calls []*HomeCall
}

func newHomes() *homes {
	h := new(homes)
	h.Open(func(c *HomeCall) { h.calls = append(h.calls, c) })
	h.Configure(Usual)
	return h
}

// draw reports whether a request is admitted from an advance.
func (h *homes) draw(key []byte, s *limit.Spec, n int64) bool {
	admitted, _ := h.Draw(key, s, at(n), new(limit.Decision))
	return admitted
}

func slide(limitOf, window int64) *limit.Spec {
	s := &limit.Spec{Kind: limit.Slide, N: 1, Cost: 1}
	s.Windows[0] = limit.Window{Limit: limitOf, Length: window}
	return s
}

// A node that stood still is not taken for one that is far, of whose keys nothing can be advanced.
func TestOneSlowAnswerEndsNoAdvances(t *testing.T) {
	h, s, key := newHomes(), slide(1000, 1000), []byte("k")
	ask := func(n int64) {
		for range 64 {
			require.False(t, h.draw(key, s, n))
		}
	}
	h.Watch(key, s, at(100), 90*ms)
	ask(101)
	require.Empty(t, h.calls)
	h.Watch(key, s, at(102), ms/10)
	require.Len(t, h.calls, 1)
	require.EqualValues(t, 125, h.calls[0].Span)
	h.End(h.calls[0], at(103), nil, nil, nil)
	for n := range int64(8) { // answers that took long
		h.Watch(key, s, at(110), 60*ms)
		require.Len(t, h.calls, 1, n)
	}
	ask(200)
	h.Watch(key, s, at(200), ms/10)
	require.Len(t, h.calls, 2)
}

// One who waits for each answer of a far node asks for an advance, though he cannot ask often.
func TestAWaitingCallerOfAFarNodeGetsAnAdvance(t *testing.T) {
	h, s, key := newHomes(), slide(1_000_000, 60_000), []byte("k")
	for n := int64(80); n < 1000 && len(h.calls) == 0; n += 80 {
		h.draw(key, s, n-80)
		h.Watch(key, s, at(n), 80*ms)
	}
	require.Len(t, h.calls, 1)
	require.EqualValues(t, 640, h.calls[0].Span)
	require.Positive(t, h.calls[0].Want)
}

// A proxy keeps balances for so many keys, and has a place again when one of them went quiet.
func TestBalancesAreBounded(t *testing.T) {
	h, s := newHomes(), slide(1000, 1000)
	key := func(i int) []byte { return fmt.Appendf(nil, "k%d", i) }
	for i := range MostKept + 10 {
		h.Watch(key(i), s, at(100), 0)
	}
	require.EqualValues(t, MostKept, h.Size.Load())
	h.draw(key(0), s, 2000)
	h.Tick(at(2200))
	require.EqualValues(t, 1, h.Size.Load())
	h.Watch(key(MostKept), s, at(2200), 0)
	require.EqualValues(t, 2, h.Size.Load())
}

// What a call about an advance has removed is told with the next admission, once.
func TestLapsedHoldsAreToldWithTheNextDraw(t *testing.T) {
	h, s, key, d := newHomes(), slide(1_000_000, 60_000), []byte("k"), new(limit.Decision)
	h.Watch(key, s, at(100), 0)
	for range 64 {
		h.draw(key, s, 101)
	}
	h.Watch(key, s, at(102), 0)
	require.Len(t, h.calls, 1)
	h.End(h.calls[0], at(103), &Terms{Number: 1, Units: 1000, Clock: 5000, Deadline: 5250, Lapsed: 3}, nil, nil)
	for _, want := range []int64{3, 0} {
		admitted, lapsed := h.Draw(key, s, at(104), d)
		require.True(t, admitted)
		require.Equal(t, want, lapsed)
	}
}
