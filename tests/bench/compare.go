package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// comparison is a case: the same requests, sent to Redis itself and to rlproxy.
type comparison struct {
	table   string
	title   string
	direct  []load // the loads of Redis, one for each script; the one that makes the most decisions is compared
	b       load   // the load of rlproxy
	figures []*figure

	// near returns the case with a limit that suits sides that both make at least that many requests
	// per second; nil: the limit does not depend on that.
	near func(rate float64) comparison
}

func (c comparison) name() string {
	return fmt.Sprintf("%s/%s/P%d", c.table, c.title, c.b.depth)
}

// figure is a result of rlproxy in a case, as a multiple of the result of Redis.
type figure struct {
	title string
	of    func(a, b sample) float64 // the figure of a round, in which a is of Redis and b of rlproxy
}

// The figures. More is better for the first two, less for the others.
var (
	byRate     = &figure{"decisions per second", func(a, b sample) float64 { return b.Rate / a.Rate }}
	byNodeCPU  = &figure{"decisions per CPU second of the Redis node", func(a, b sample) float64 { return a.node / max(b.node, 1e-3) }}
	byAllCPU   = &figure{"CPU of all Redis nodes per decision", func(a, b sample) float64 { return b.node / a.node }}
	byBusiest  = &figure{"CPU of the busiest Redis node per decision", func(a, b sample) float64 { return b.busiest / a.busiest }}
	byProxyCPU = &figure{"CPU of rlproxy per decision", func(a, b sample) float64 { return b.proxy / a.proxy }}
	byCrossing = &figure{"calls per second from which a split pays", crossing}
	byP50      = &figure{"p50", func(a, b sample) float64 { return b.P50 / a.P50 }}
	byP99      = &figure{"p99", func(a, b sample) float64 { return b.P99 / a.P99 }}
	byP999     = &figure{"p99.9", func(a, b sample) float64 { return b.P999 / a.P999 }}
)

// spread is the median of all rounds, and the lowest and the highest value.
type spread struct{ low, median, high float64 }

func spreadOf(values []float64) spread {
	s := slices.Sorted(slices.Values(values))
	n := len(s)
	return spread{s[0], (s[(n-1)/2] + s[n/2]) / 2, s[n-1]}
}

// much is the multiple beyond which only that is shown: a node that is hardly asked takes hardly any time.
const much = 100

func (s spread) String() string {
	if s.low > much {
		return multiple(s.low)
	}
	return fmt.Sprintf("%s (%s to %s)", multiple(s.median), multiple(s.low), multiple(s.high))
}

// multiple returns a multiple as text.
func multiple(v float64) string {
	if v > much {
		return fmt.Sprintf("over %d", much)
	}
	return short(v)
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
	a      load     // the load of Redis that was compared
	na, nb int      // the number of commands of each round, for Redis and for rlproxy
	as, bs sample   // the medians of Redis and of rlproxy
	values []spread // by index of figures
}

func (r result) String() string {
	s := fmt.Sprintf("%-58s %9.0f/s %9.0f/s", r.name(), r.as.Rate, r.bs.Rate)
	for i, f := range r.figures {
		s += fmt.Sprintf("  %s: %s", f.title, r.values[i])
	}
	return s
}

// reached returns how many requests per second the slowest side makes in a short run, for keys with room.
func (c comparison) reached(ctx context.Context, o options) (float64, error) {
	least := math.Inf(1)
	for _, side := range append(slices.Clone(c.direct), c.b) {
		side.warm = 0
		n, err := side.size(ctx, o)
		if err != nil {
			return 0, err
		}
		least = min(least, float64(n)/o.seconds)
	}
	return least, nil
}

// compare measures both sides of a case in each round. The order changes from round
// to round: the side that came last comes first in the next round, while its keys are
// still in their usual state.
func compare(ctx context.Context, o options, c comparison) (result, error) {
	if c.near != nil {
		rate, err := c.reached(ctx, o)
		if err != nil {
			return result{comparison: c}, err
		}
		c = c.near(rate)
	}
	r := result{comparison: c}
	for _, way := range c.direct {
		n, err := way.size(ctx, o)
		if err != nil {
			return r, err
		}
		if n > r.na {
			r.na, r.a = n, way
		}
	}
	var err error
	if r.nb, err = c.b.size(ctx, o); err != nil {
		return r, err
	}
	if c.b.keys > 1 && c.b.warm == 0 { // more requests would mean more state
		r.na = min(r.na, r.nb)
		r.nb = r.na
	}
	if c.b.send == paced {
		if c.b.rate == 0 {
			r.b.rate = math.Round(float64(r.na) / o.seconds / 2)
		}
		r.a.rate = r.b.rate
		r.na = int(r.b.rate * o.seconds * 2)
		r.nb = r.na
	}
	as, bs := make([]sample, o.rounds), make([]sample, o.rounds)
	for i := range o.rounds {
		direct := func(again bool) error { as[i], err = r.a.round(ctx, o, r.na, again); return err }
		proxied := func(again bool) error { bs[i], err = r.b.round(ctx, o, r.nb, again); return err }
		first, second := proxied, direct // the size of rlproxy's rounds was measured last
		if i%2 == 1 {
			first, second = second, first
		}
		if err := first(true); err != nil {
			return r, err
		}
		if err := second(false); err != nil {
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

// size returns the number of commands of a round of the wanted length, from a short round that is not
// part of the results. For an open loop, it is the number that waiting clients send.
func (l load) size(ctx context.Context, o options) (int, error) {
	if l.send == paced {
		l.send, l.stopped = together, nil
	}
	if err := l.prepare(ctx); err != nil {
		return 0, err
	}
	short, least := 3000*min(l.depth, 8), max(2000, 20*l.clients) // most of the time must not be spent on connecting
	if l.trial > 0 {
		short, least = l.trial, l.trial
	}
	s, err := l.run(ctx, short)
	if err == nil && l.warm > 0 {
		if err = l.warmUp(ctx, o, int(s.Rate*o.seconds)); err == nil {
			// As long as a round, since keys near a limit admit and deny in waves.
			s, err = l.run(ctx, max(int(s.Rate*o.seconds), short))
		}
	}
	return max(int(s.Rate*o.seconds), least), err
}

// round measures a round of n commands. again says that the last round was of the same
// side, so that its keys are in their usual state already.
func (l load) round(ctx context.Context, o options, n int, again bool) (sample, error) {
	if again && l.warm > 0 {
		return l.run(ctx, n)
	}
	if err := l.prepare(ctx); err != nil {
		return sample{}, err
	}
	if err := l.warmUp(ctx, o, n); err != nil {
		return sample{}, err
	}
	return l.run(ctx, n)
}

// warmUp brings the keys into their usual state. n is the number of commands of a round.
func (l load) warmUp(ctx context.Context, o options, n int) error {
	seconds := min(l.warm, o.warm)
	if l.even == 0 {
		if n = int(float64(n) / o.seconds * seconds); n == 0 {
			return nil
		}
		return l.drive(ctx, n, new(sample))
	}
	for began, i := time.Now(), 1.0; i <= math.Ceil(seconds); i++ {
		if err := l.drive(ctx, l.even, new(sample)); err != nil {
			return err
		}
		select {
		case <-time.After(time.Until(began.Add(time.Duration(min(i, seconds) * float64(time.Second))))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// medians returns the median of each field.
func medians(all []sample) sample {
	median := func(of func(sample) float64) float64 {
		var values []float64
		for _, s := range all {
			values = append(values, of(s))
		}
		return spreadOf(values).median
	}
	return sample{
		Figures: traffic.Figures{
			Rate:   median(func(s sample) float64 { return s.Rate }),
			P50:    median(func(s sample) float64 { return s.P50 }),
			P99:    median(func(s sample) float64 { return s.P99 }),
			P999:   median(func(s sample) float64 { return s.P999 }),
			Max:    median(func(s sample) float64 { return s.Max }),
			Late:   median(func(s sample) float64 { return s.Late }),
			Failed: median(func(s sample) float64 { return s.Failed }),
		},
		node:    median(func(s sample) float64 { return s.node }),
		busiest: median(func(s sample) float64 { return s.busiest }),
		calls:   median(func(s sample) float64 { return s.calls }),
		least:   median(func(s sample) float64 { return s.least }),
		most:    median(func(s sample) float64 { return s.most }),
		proxy:   median(func(s sample) float64 { return s.proxy }),
		denied:  median(func(s sample) float64 { return s.denied }),
	}
}
