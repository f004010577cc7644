package accuracy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// waits counts the outcomes of waiting for the retry_after of denials.
type waits struct {
	Tried int // 0: the limiter does not say how long to wait
	Exact int // denied one margin before it had passed, admitted when it had
	Early int // still denied when it had passed
	Late  int // already admitted one margin before
}

// trial is one denial on its way to being tried.
type trial struct {
	key    string
	at     int64 // ms of what comes next
	sent   int64 // us when what was denied was asked
	denied int64 // us when the answer had come; 0: it was not denied yet
	retry  int64 // ms
	asked  bool  // again before retry had passed, and was denied
	missed int   // times that the machine was too busy to ask again before retry had passed
}

// waits uses keys at random until they deny, asks again a margin (1 ms, if the test sets the clock) before the retry_after
// has passed, and again when it has.
func (w *world) waits(t testing.TB, rng *rand.Rand, n int) (f waits) {
	t.Helper()
	const parts = 5
	start := w.start()
	trials := make([]*trial, n)
	for i := range trials {
		trials[i] = &trial{key: w.key(), at: start + rng.Int64N(w.window)}
	}
	for len(trials) > 0 {
		next := slices.MinFunc(trials, func(a, b *trial) int { return cmp.Compare(a.at, b.at) })
		w.until(next.at)
		units := 1
		if next.denied == 0 {
			units += rng.IntN(int(w.limit))
		}
		sent := w.now()
		answers, err := w.ask(next.key, w.rule, units)
		require.NoError(t, err)
		last := answers[len(answers)-1]
		switch {
		case next.denied == 0 && last.ok:
			next.at += 1 + rng.Int64N(w.window/parts)
			continue
		case next.denied == 0 && last.retry == silent:
			return waits{}
		case next.denied == 0:
			f.Tried++
			next.sent, next.denied, next.retry = sent, w.now(), last.retry
			next.asked = last.retry <= w.margin
			next.at = sent/1000 + last.retry - w.margin
			if next.asked {
				next.at = next.after(w)
			}
			continue
		case !next.asked && !last.ok:
			next.asked, next.at = true, next.after(w)
			continue
		case !next.asked && w.now() >= next.sent+next.retry*1000: // it may have passed
			f.Tried--
			require.Less(t, next.missed, 20, "the machine is too busy to ask in time")
			*next = trial{key: w.key(), at: w.now()/1000 + 1 + rng.Int64N(w.window), missed: next.missed + 1}
			continue
		case !next.asked:
			f.Late++
		case last.ok:
			f.Exact++
		default:
			f.Early++
		}
		trials = slices.DeleteFunc(trials, func(o *trial) bool { return o == next })
	}
	return f
}

// after returns the ms at which retry has passed for certain.
func (t *trial) after(w *world) int64 { return (t.denied+999)/1000 + t.retry + w.late }

// back returns after how many windows all of the limit is free again, when all of it was used at once at the least
// convenient moment, in steps of a twentieth.
func (w *world) back(t testing.TB, phases int) (most float64) {
	t.Helper()
	const parts = 20
	var schedules []schedule
	var after []int64
	for phase := range int64(phases) {
		at := phase * w.window / int64(phases)
		for part := int64(1); part <= 3*parts; part++ {
			schedules = append(schedules, schedule{{at, int(w.limit)}, {at + part*w.window/parts + 1, int(w.limit)}})
			after = append(after, part)
		}
	}
	for i, h := range w.run(t, schedules) {
		if int64(h.admitted()) < 2*w.limit {
			most = max(most, float64(after[i]+1)/parts)
		}
	}
	return most
}
