package main

import (
	"context"
	"fmt"
	"math"
	"slices"
)

// comparison is one case: the same question put to two targets, a and b.
type comparison struct {
	table   string
	title   string
	a, b    load
	figures []*figure
}

func (c comparison) name() string {
	return fmt.Sprintf("%s/%s/P%d", c.table, c.title, c.b.depth)
}

// figure is how a case's result is told: as a multiple of what the other side does.
type figure struct {
	title string
	of    func(a, b sample) float64 // of what both sides did in one round
}

// The figures. More is better for the first two, less for the others.
var (
	byRate    = &figure{"decisions per second", func(a, b sample) float64 { return b.rate / a.rate }}
	byNodeCPU = &figure{"decisions per CPU second of the Redis node", func(a, b sample) float64 { return a.node / max(b.node, 1e-3) }}
	byAllCPU  = &figure{"CPU of all Redis nodes per decision", func(a, b sample) float64 { return b.node / a.node }}
	byBusiest = &figure{"CPU of the busiest Redis node per decision", func(a, b sample) float64 { return b.busiest / a.busiest }}
	byP50     = &figure{"p50", func(a, b sample) float64 { return b.p50 / a.p50 }}
	byP99     = &figure{"p99", func(a, b sample) float64 { return b.p99 / a.p99 }}
)

// spread is the median of the rounds, and the lowest and highest of them.
type spread struct{ low, median, high float64 }

func spreadOf(values []float64) spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return spread{s[0], (s[(n-1)/2] + s[n/2]) / 2, s[n-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s to %s)", short(s.median), short(s.low), short(s.high))
}

// short writes a number with three digits.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2 - int(math.Floor(math.Log10(math.Abs(v))))
	return fmt.Sprintf("%.*f", max(digits, 0), v)
}

// result is a case that has been measured.
type result struct {
	comparison
	na, nb int      // commands in each round, on each side
	as, bs sample   // medians
	values []spread // one per figure
}

func (r result) String() string {
	s := fmt.Sprintf("%-58s %9.0f/s %9.0f/s", r.name(), r.as.rate, r.bs.rate)
	for i, f := range r.figures {
		s += fmt.Sprintf("  %s: %s", f.title, r.values[i])
	}
	return s
}

// compare measures both sides of a case in turn, round after round. The order
// changes from round to round, so that neither always comes first.
func compare(ctx context.Context, o options, c comparison) (result, error) {
	r := result{comparison: c}
	var err error
	if r.na, err = c.a.size(ctx, o); err != nil {
		return r, err
	}
	if r.nb, err = c.b.size(ctx, o); err != nil {
		return r, err
	}
	if c.a.keys > 1 { // more requests would mean more state
		r.na = min(r.na, r.nb)
		r.nb = r.na
	}
	as, bs := make([]sample, o.rounds), make([]sample, o.rounds)
	for i := range o.rounds {
		first := func() error { as[i], err = c.a.round(ctx, o, r.na); return err }
		second := func() error { bs[i], err = c.b.round(ctx, o, r.nb); return err }
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(); err != nil {
			return r, err
		}
		if err := second(); err != nil {
			return r, err
		}
	}
	r.as, r.bs = medians(as), medians(bs)
	for _, f := range c.figures {
		values := make([]float64, o.rounds)
		for i := range values {
			values[i] = f.of(as[i], bs[i])
		}
		r.values = append(r.values, spreadOf(values))
	}
	return r, nil
}

// size returns how many commands make a round of the wanted length. A short round
// tells, which is not counted.
func (l load) size(ctx context.Context, o options) (int, error) {
	if err := l.prepare(ctx); err != nil {
		return 0, err
	}
	s, err := l.run(ctx, 3000*min(l.depth, 8))
	// Connecting must not be what is measured.
	return max(int(s.rate*o.seconds), 2000, 20*l.clients), err
}

// round is one measurement of one side. A single key is warm after requests for a
// window's length; many keys are warm once they exist.
func (l load) round(ctx context.Context, o options, n int) (sample, error) {
	if err := l.prepare(ctx); err != nil {
		return sample{}, err
	}
	if l.keys == 1 {
		if _, err := l.run(ctx, int(float64(n)*min(1/o.seconds, 1))); err != nil {
			return sample{}, err
		}
	}
	return l.run(ctx, n)
}

// medians is the median of every field by itself.
func medians(all []sample) sample {
	median := func(of func(sample) float64) float64 {
		var values []float64
		for _, s := range all {
			values = append(values, of(s))
		}
		return spreadOf(values).median
	}
	return sample{
		rate:    median(func(s sample) float64 { return s.rate }),
		node:    median(func(s sample) float64 { return s.node }),
		busiest: median(func(s sample) float64 { return s.busiest }),
		least:   median(func(s sample) float64 { return s.least }),
		most:    median(func(s sample) float64 { return s.most }),
		proxy:   median(func(s sample) float64 { return s.proxy }),
		p50:     median(func(s sample) float64 { return s.p50 }),
		p99:     median(func(s sample) float64 { return s.p99 }),
	}
}
