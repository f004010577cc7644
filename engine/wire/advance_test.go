package wire

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/advance"
	"github.com/stretchr/testify/require"
)

// The proxy draws from nothing that no home can have advanced.
func TestDecodeAdvanceRefusesWhatCannotBe(t *testing.T) {
	s := counter()
	answer := func(change func(a *AdvanceAnswer)) string {
		a := &AdvanceAnswer{Used: []int64{40}, Empty: []int64{clock + 1000}, Terms: advance.Terms{Number: 7, Units: 100, Deadline: clock + 250, Clock: clock}}
		change(a)
		return string(Pack(a))
	}
	good := answer(func(*AdvanceAnswer) {})
	a, err := DecodeAdvance(good, &s)
	require.NoError(t, err)
	require.EqualValues(t, 100, a.Terms.Units)
	none := answer(func(a *AdvanceAnswer) { a.Terms = advance.Terms{Clock: clock, Late: true} })
	_, err = DecodeAdvance(none, &s)
	require.NoError(t, err)
	for name, change := range map[string]func(a *AdvanceAnswer){
		"more than the limit":     func(a *AdvanceAnswer) { a.Terms.Units = 101 },
		"negative units":          func(a *AdvanceAnswer) { a.Terms.Units = -1 },
		"units without a number":  func(a *AdvanceAnswer) { a.Terms.Number = 0 },
		"a number without units":  func(a *AdvanceAnswer) { a.Terms.Units = 0 },
		"a negative number":       func(a *AdvanceAnswer) { a.Terms.Number = -1 },
		"a deadline far ahead":    func(a *AdvanceAnswer) { a.Terms.Deadline = clock + 2001 },
		"a deadline that is over": func(a *AdvanceAnswer) { a.Terms.Deadline = clock },
		"no clock":                func(a *AdvanceAnswer) { a.Terms.Clock, a.Terms.Deadline = 0, 250 },
		"a negative clock":        func(a *AdvanceAnswer) { a.Terms.Clock, a.Terms.Deadline = -250, 0 },
		"a clock without end":     func(a *AdvanceAnswer) { a.Terms.Clock, a.Terms.Deadline = 1<<62, 1<<62+250 },
		"use of two windows":      func(a *AdvanceAnswer) { a.Used = []int64{40, 40} },
		"negative use":            func(a *AdvanceAnswer) { a.Used[0] = -1 },
	} {
		_, err := DecodeAdvance(answer(change), &s)
		require.Error(t, err, name)
	}
	for i := range good {
		_, err := DecodeAdvance(good[:i], &s)
		require.Error(t, err, "cut off after %d bytes", i)
	}
	_, err = DecodeAdvance(good+"x", &s)
	require.Error(t, err)
}
