package advance

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ms = time.Millisecond

// at returns the moment of so many ms by both clocks.
func at(n int64) Instant { return Instant{time.Duration(n) * ms, time.Duration(n) * ms} }

// advanced returns an advance of 100 units from 1,000 to 1,250 by the node's clock, which was asked for at moment 0.
func advanced() *Advance {
	a := new(Advance)
	a.Answered(nil, at(0), Terms{Number: 7, Units: 100, Deadline: 1250, Clock: 1000})
	return a
}

func TestDrawsEndBeforeTheDeadline(t *testing.T) {
	a := advanced()
	require.True(t, a.Draw(at(248), 1))
	require.False(t, a.Draw(at(249), 1), "the node's clock may show 1250")
	require.False(t, a.Draw(Instant{Monotonic: ms, Wall: 249 * ms}, 1), "the machine was suspended")
	require.False(t, a.Draw(Instant{Monotonic: 249 * ms, Wall: -time.Hour}, 1), "the wall clock was set back")
	require.EqualValues(t, 2, a.Remaining(at(247)))
}

func TestDrawsAreAtMostTheUnits(t *testing.T) {
	a := advanced()
	require.False(t, a.Draw(at(1), 101))
	require.True(t, a.Draw(at(1), 60))
	require.False(t, a.Draw(at(1), 41))
	require.True(t, a.Draw(at(1), 40))
	require.Zero(t, a.Left())
}

// Times are rounded up to a sixteenth of the span, here 15 ms, so that an account has few draws.
func TestDrawsAreGrouped(t *testing.T) {
	a := advanced()
	for n := range int64(50) {
		require.True(t, a.Draw(at(n), 1))
	}
	require.Equal(t, []Draw{{1005, 5}, {1020, 15}, {1035, 15}, {1050, 15}}, a.Account(0).Draws)
}

func TestAnAccountStaysTheSameUntilItIsAnswered(t *testing.T) {
	a := advanced()
	require.True(t, a.Draw(at(1), 10))
	sent := a.Account(20)
	require.Equal(t, &Account{Number: 7, Draws: []Draw{{1005, 10}}, Keep: 20}, sent)
	require.True(t, a.Draw(at(2), 15), "of what was kept")
	require.False(t, a.Draw(at(2), 6))
	require.Same(t, sent, a.Account(90))
	require.Equal(t, []Draw{{1005, 10}}, sent.Draws)

	a.Answered(nil, at(3), Terms{Number: 9, Units: 1000, Deadline: 9999})
	require.EqualValues(t, 7, a.Number(), "no call without an account is about this advance")
	a.Answered(sent, at(3), Terms{Number: 8, Units: 50, Deadline: 1300, Clock: 1004})
	require.EqualValues(t, 35, a.Left(), "15 of the 50 are drawn")
	a.Answered(sent, at(4), Terms{})
	require.EqualValues(t, 8, a.Number(), "an answer that comes twice changes nothing")
	require.Equal(t, &Account{Number: 8, Draws: []Draw{{1005, 15}}, Keep: 35}, a.Account(90))
}

func TestARecalledAdvanceIsGivenBack(t *testing.T) {
	a := advanced()
	require.True(t, a.Draw(at(1), 10))
	a.Recall()
	require.False(t, a.Draw(at(1), 1))
	require.Equal(t, &Account{Number: 7, Draws: []Draw{{1005, 10}}}, a.Account(50))
}

// near returns the balance of a key whose node is near.
func near() *Balance { return &Balance{Period: Usual, Hot: 8} }

func TestAKeyAsksForAnAdvanceWhenItIsHot(t *testing.T) {
	k := near()
	require.False(t, k.Request(at(1000), 1))
	require.False(t, k.Wants(at(1001)), "one request")
	for n := range int64(9) {
		require.False(t, k.Request(at(1000+n), 1))
	}
	require.True(t, k.Wants(at(1009)))
	require.False(t, k.Due(at(1009)))
	c := k.Call(at(1010))
	require.Equal(t, Message{Want: 100}, c, "10 in 50 ms, for twice 250 ms")
	require.False(t, k.Wants(at(1011)), "one call at a time")
	k.End(c, at(1010), &Terms{Number: 3, Units: 100, Deadline: 5250, Clock: 5000})
	require.True(t, k.Request(at(1012), 1))
	require.False(t, k.Due(at(1012)))
	require.True(t, k.Due(at(1135)), "half of the span is over")
}

func TestAKeyWithoutRoomAsksSeldom(t *testing.T) {
	k := near()
	calls := 0
	for n := range int64(10_000) {
		require.False(t, k.Request(at(n), 1))
		if k.Wants(at(n)) {
			calls++
			k.End(k.Call(at(n)), at(n), &Terms{Clock: 5000 + n})
		}
	}
	require.InDelta(t, 10, calls, 2)
}

// A proxy whose requests need far more than it was advanced asks again before the pause is over, if the home had more.
func TestAnAdvanceThatIsTooSmallIsEnlargedAtOnce(t *testing.T) {
	for units, due := range map[int64]bool{100: true, 99: false} { // of the 100 that it wants
		k := near()
		for range 10 {
			k.Request(at(1000), 1)
		}
		c := k.Call(at(1000))
		k.End(c, at(1000), &Terms{Number: 3, Units: units, Deadline: 5250, Clock: 5000})
		for range 70 {
			require.True(t, k.Request(at(1001), 1))
		}
		require.Equal(t, due, k.Due(at(1001)), units)
		require.True(t, k.Due(at(1060)))
		require.EqualValues(t, 800, k.Call(at(1060)).Want)
	}
}

func TestAKeyThatWentQuietGivesBackWhatItHas(t *testing.T) {
	k := near()
	for range 20 {
		k.Request(at(100), 1)
	}
	k.End(k.Call(at(101)), at(101), &Terms{Number: 3, Units: 100, Deadline: 5250, Clock: 5000})
	require.True(t, k.Due(at(300)))
	c := k.Call(at(300))
	require.Equal(t, Message{Account: &Account{Number: 3, Keep: 100}, Want: 120}, c, "more requests may come")
	k.End(c, at(300), &Terms{Number: 4, Units: 120, Deadline: 5500, Clock: 5250})
	require.True(t, k.Due(at(900)))
	c = k.Call(at(900))
	require.Equal(t, Message{Account: &Account{Number: 4}}, c)
	k.End(c, at(900), nil)
	require.False(t, k.Due(at(901)))
	require.True(t, k.Due(at(960)), "its answer was lost")
}

// The answer to a call that was under way when the recall came may be older than the recall.
func TestARecallDuringACallIsNotForgotten(t *testing.T) {
	k := near()
	for range 20 {
		k.Request(at(100), 1)
	}
	c := k.Call(at(101))
	k.Recall()
	k.End(c, at(101), &Terms{Number: 3, Units: 100, Deadline: 5250, Clock: 5000})
	require.False(t, k.Request(at(102), 1))
	require.True(t, k.Due(at(102)))
	require.Equal(t, Message{Account: &Account{Number: 3}}, k.Call(at(102)))
}

// A node that is out of memory takes accounts that ask for nothing.
func TestAfterACallThatFailedNothingIsAskedFor(t *testing.T) {
	k := near()
	ask := func(n int64) Message {
		for range 20 {
			k.Request(at(n), 1)
		}
		require.True(t, k.Due(at(n)) || k.Wants(at(n)))
		return k.Call(at(n))
	}
	k.End(ask(100), at(101), &Terms{Number: 3, Units: 40, Deadline: 5250, Clock: 5000})
	c := ask(200)
	require.Positive(t, c.Want)
	k.End(c, at(200), nil)
	require.Equal(t, Message{Account: c.Account}, ask(260))
}

func TestSpan(t *testing.T) {
	for _, c := range []struct {
		window int64
		trip   time.Duration
		span   int64
	}{
		{60_000, 100 * time.Microsecond, 250}, {1000, 100 * time.Microsecond, 125}, {799, 0, 0},
		{60_000, 80 * ms, 640}, {4000, 80 * ms, 0}, {60_000, 300 * ms, 0},
	} {
		require.Equal(t, c.span, Span(Usual, c.window, c.trip), "%+v", c)
	}
}

func TestAnAdvancePaysForTheNodeOrForThoseWhoWait(t *testing.T) {
	for _, c := range []struct {
		period    int64
		roundTrip time.Duration
		pays      int64
	}{{250, 0, 64}, {250, 100 * time.Microsecond, 64}, {250, 2 * ms, 62}, {250, 12_500 * time.Microsecond, 10}, {640, 80 * ms, 4}} {
		require.Equal(t, c.pays, Pays(c.period, c.roundTrip), c)
	}
}

// A key near the threshold does not lose its advance and ask for it again all the time.
func TestAnAdvanceEndsAtHalfOfWhatItBeganWith(t *testing.T) {
	k := near()
	for range 8 {
		k.Request(at(1000), 1)
	}
	k.End(k.Call(at(1000)), at(1000), &Terms{Number: 3, Units: 100, Deadline: 5250, Clock: 5000})
	k.Request(at(1140), 1)
	require.Positive(t, k.Call(at(1140)).Want, "1 in 50 ms are 5 in the period")
}

// However a node answers, a key makes at most 20 calls a second, and none if it is not hot.
func TestCallsOfAKeyAreFew(t *testing.T) {
	for name, answer := range map[string]func(n int64) *Terms{
		"never":         func(int64) *Terms { return nil },
		"with nothing":  func(n int64) *Terms { return &Terms{Clock: n} },
		"with one unit": func(n int64) *Terms { return &Terms{Number: n, Units: 1, Deadline: n + 2000, Clock: n} },
		"with one ms":   func(n int64) *Terms { return &Terms{Number: n, Units: 100, Deadline: n + 1, Clock: n} },
		"with the recall": func(n int64) *Terms {
			return &Terms{Number: n, Units: 1000, Deadline: n + 250, Clock: n, Recalled: true}
		},
	} {
		calls := func(requests int64) (calls int) {
			b := near()
			for n := int64(1); n < 10_000; n++ {
				for r := range requests {
					if requests > 1 || n%50 == r {
						b.Request(at(n), 1)
					}
				}
				if b.Due(at(n)) || b.Wants(at(n)) {
					calls++
					b.End(b.Call(at(n)), at(n), answer(n))
				}
			}
			return calls
		}
		require.LessOrEqual(t, calls(1000), 10*20, name)
		require.Zero(t, calls(1), name)
	}
}
