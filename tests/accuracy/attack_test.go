package accuracy

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// worst returns the most that any of the schedules gets in a trailing window, over the limit.
func (w *world) worst(t testing.TB, schedules []schedule) (most float64) {
	t.Helper()
	for _, h := range w.run(t, schedules) {
		most = max(most, w.over(h))
	}
	return most
}

// over returns the most within a window, over the limit.
func (w *world) over(h history) float64 {
	w.closed = max(w.closed, h.worst(w.window+1))
	return h.worst(w.window)
}

// edges returns schedules with twice the limit just before an edge and twice the limit just after it: the edge of a
// window that begins at a multiple of its length, and of one that begins with its first request.
func (w *world) edges() (out []schedule) {
	n := int(2 * w.limit)
	for _, after := range []int64{0, w.margin, 2 * w.margin} {
		out = append(out,
			schedule{{w.window - w.margin, n}, {w.window + after, n}},
			schedule{{w.window / 3, 1}, {w.window/3 + w.window - w.margin, n}, {w.window/3 + w.window + after, n}})
	}
	return out
}

// greedy returns schedules that use all of the limit at once, at several places of a window, and from then on ask for more
// all the time, for two windows.
func (w *world) greedy() (out []schedule) {
	step := max(w.window/w.steps, w.margin)
	for _, at := range []int64{0, w.window / 4, w.window / 2, w.window * 3 / 4, w.window - w.margin} {
		s := schedule{{at, int(2 * w.limit)}}
		for ; at < 3*w.window; at += step {
			s = append(s, burst{at + step, 2})
		}
		out = append(out, s)
	}
	return out
}

// width is how many schedules the search tries in a round, and kept how many it goes on from.
const width, kept = 16, 4

// patient looks for the schedule that gets the most, and returns what it gets over the limit. It begins with 16
// schedules at random. In each round it keeps the four best ones of all so far, and tries 16 new ones:
// changed copies of those, and some more at random.
func (w *world) patient(t testing.TB, rng *rand.Rand, rounds int) (most float64) {
	t.Helper()
	type found struct {
		plan plan
		over float64
	}
	var best []found
	for range rounds {
		tried := make([]found, width)
		schedules := make([]schedule, width)
		for i := range tried {
			if i < width-kept && len(best) > 0 {
				tried[i].plan = best[rng.IntN(len(best))].plan.changed(w, rng)
			} else {
				tried[i].plan = plan{w.section(rng), w.section(rng), w.section(rng)}
			}
			schedules[i] = tried[i].plan.schedule()
		}
		for i, h := range w.run(t, schedules) {
			tried[i].over = w.over(h)
		}
		best = append(best, tried...)
		slices.SortStableFunc(best, func(a, b found) int { // the highest first, of equal ones the shortest
			if a.over != b.over {
				return int((b.over - a.over) * 1e6)
			}
			return len(a.plan) - len(b.plan)
		})
		best = best[:min(kept, len(best))]
	}
	return best[0].over
}

// section is n requests at once, or n at each of several moments.
type section struct {
	from, to, step int64 // ms
	n              int
}

// plan is a schedule as the search changes it.
type plan []section

// section returns one at random within four windows. It often begins near an edge.
func (w *world) section(rng *rand.Rand) section {
	s := section{from: rng.Int64N(4 * w.window), n: 1 + rng.IntN(int(2*w.limit))}
	if rng.IntN(2) == 0 {
		s.from = (1+rng.Int64N(3))*w.window + (rng.Int64N(3)-1)*w.margin
	}
	s.to = s.from
	if rng.IntN(3) == 0 {
		s.to += rng.Int64N(w.window)
		s.step = w.window / 40
		s.n = 1 + rng.IntN(int(max(w.limit/10, 2)))
	}
	return s
}

// changed returns a copy with a section moved, resized, replaced, added or taken away.
func (p plan) changed(w *world, rng *rand.Rand) plan {
	p = slices.Clone(p)
	s := &p[rng.IntN(len(p))]
	switch rng.IntN(5) {
	case 0:
		by := rng.Int64N(w.window/5) - w.window/10
		if rng.IntN(2) == 0 {
			by = (rng.Int64N(5) - 2) * w.margin
		}
		by = max(by, -s.from)
		s.from, s.to = s.from+by, s.to+by
	case 1:
		s.n = 1 + rng.IntN(2*s.n)
	case 2:
		*s = w.section(rng)
	case 3:
		if len(p) < 8 {
			p = append(p, w.section(rng))
		}
	case 4:
		if len(p) > 1 {
			i := rng.IntN(len(p))
			p = slices.Delete(p, i, i+1)
		}
	}
	return p
}

func (p plan) schedule() (s schedule) {
	for _, c := range p {
		s = append(s, burst{c.from, c.n})
		for at := c.from + c.step; c.step > 0 && at <= c.to; at += c.step {
			s = append(s, burst{at, c.n})
		}
	}
	slices.SortStableFunc(s, func(a, b burst) int { return int(a.at - b.at) })
	return s
}
