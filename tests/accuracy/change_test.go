package accuracy

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// changes are what becomes of use when the limit is raised by half, and when it is halved.
type changes struct{ Raised, Lowered changed }

// changed is what a client gets when it has used all of a limit and from then on asks for another one.
type changed struct {
	AtOnce int64   // of a limit of 100 in a day
	Worst  float64 // the most in a trailing window, over the limit of the last request in it
	Later  float64 // in the third and the fourth window, over the new limit in each
}

func (w *world) changes(t testing.TB) changes {
	t.Helper()
	return changes{w.changed(t, 3), w.changed(t, 1)}
}

// changed replaces the limit by so many halves of it.
func (w *world) changed(t testing.TB, halves int64) (c changed) {
	t.Helper()
	key, other := w.key(), rule{long.limit * halves / 2, long.window}
	_, err := w.ask(key, long, int(long.limit))
	require.NoError(t, err)
	answers, err := w.ask(key, other, int(long.limit))
	require.NoError(t, err)
	c.AtOnce = count(answers)

	limit, schedules, changes := w.limit*halves/2, []schedule(nil), []change(nil)
	for quarter := range int64(4) { // all of the limit is used at a quarter of a window, and the other one asked for soon or later
		used := quarter * w.window / 4
		at := used + w.margin + quarter%2*w.window/2
		s := schedule{{used, int(w.limit)}, {at, int(2 * limit)}}
		for at < 4*w.window {
			at += w.window / w.steps
			s = append(s, burst{at, 2})
		}
		schedules, changes = append(schedules, s), append(changes, change{s[1].at, limit})
	}
	for _, h := range w.run(t, schedules, changes...) {
		c.Worst = max(c.Worst, h.worst(w.window))
		c.Later += h.last(2, w.window) / float64(len(schedules))
	}
	return c
}

// TestAChangedLimitCountsWhatWasAdmitted requires that RL.SLIDE and STRICT hold a new limit at once, and that no client gets more
// than it in a trailing window that began under the old one.
func TestAChangedLimitCountsWhatWasAdmitted(t *testing.T) {
	t.Parallel()
	for _, r := range rows() {
		if !r.exact && !r.strict {
			continue
		}
		for _, on := range []string{"", embedded} {
			t.Run(r.name+" "+on, func(t *testing.T) {
				t.Parallel()
				c := r.onSetClock(t, on, short.limit).changes(t)
				require.EqualValues(t, 50, c.Raised.AtOnce)
				require.EqualValues(t, 0, c.Lowered.AtOnce)
				require.Equal(t, [2]float64{1, 1}, [2]float64{c.Raised.Worst, c.Lowered.Worst}, "the most in a trailing window over the limit")
			})
		}
	}
}
