package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rlproxy/rlproxy/tests/testbed"
)

// growth is a series of loads, each with more work than the one before it.
type growth struct {
	name  string
	of    string // what grows
	why   string // an explanation of the steps, for the report
	steps []step // in the order of their work
}

type step struct {
	title string
	load  load
}

// grown is a series with its results.
type grown struct {
	growth
	samples []sample // the medians of each step
}

// worst returns the largest factor by which a step is slower than the step before it, or
// takes more CPU time.
func (g grown) worst() float64 {
	worst := 1.0
	for i := 1; i < len(g.samples); i++ {
		a, b := g.samples[i-1], g.samples[i]
		worst = max(worst, a.Rate/b.Rate)
		if a.node > 0 {
			worst = max(worst, b.node/a.node)
		}
	}
	return worst
}

func (g grown) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-44s", g.name)
	for i, s := range g.samples {
		fmt.Fprintf(&b, "  %s: %.0f/s, node %.1f us, rlproxy %.1f us;", g.steps[i].title, s.Rate, s.node, s.proxy)
	}
	fmt.Fprintf(&b, "  worst step %.2f", g.worst())
	return b.String()
}

// growths returns the series for both engines, each with the commands for which it makes a
// difference.
func growths(l *lab, o options) []growth {
	proxy := target{fronts: []*testbed.Server{l.proxy}, proxied: true, nodes: []*testbed.Server{l.node}}
	memory := target{fronts: []*testbed.Server{l.memory}, proxied: true, fresh: true}
	var all []growth
	for _, q := range algorithms {
		for _, to := range []struct {
			name string
			target
		}{{"one Redis node", proxy}, {"embedded engine", memory}} {
			many := load{target: to.target, keys: o.keys, clients: clients, depth: 16, command: asked{q, manyKeys, 100, 60_000}.proxied()}
			name := func(of string) string { return q.command + ", " + to.name + ", " + of }
			windows := growth{name("windows"), "windows", "limit 1,000,000 in each, -P 16; a record has a state for each window", windowSteps(many, q)}
			if q.command == "RL.COUNTER" {
				all = append(all, growth{name("keys"), "keys", "a key's state has one size, and all requests are admitted; -P 16", keySteps(many, q, o)}, windows)
				continue
			}
			all = append(all,
				growth{name("limits"), "limits", "1,000 keys, -P 16; windows are in proportion to the limits, so that keys admit at the same rate and keep more", limitSteps(many, q)},
				windows,
				growth{name("connections"), "connections", "limit 100 in 60 s, -P 1; the load generator shares the cores and slows down, too", connectionSteps(many)})
		}
	}
	return all
}

func keySteps(l load, q algorithm, o options) (steps []step) {
	l.command = asked{q, manyKeys, 1_000_000, 60_000}.proxied()
	for _, n := range []int{1000, 100_000, o.most} {
		l.keys = n
		steps = append(steps, step{thousands(float64(n)), l})
	}
	return steps
}

func limitSteps(l load, q algorithm) (steps []step) {
	l.keys = 1000
	for _, limit := range []int{10, 1000, 1_000_000} {
		l.command = asked{q, manyKeys, limit, limit * 5}.proxied()
		steps = append(steps, step{thousands(float64(limit)), l})
	}
	return steps
}

func windowSteps(l load, q algorithm) (steps []step) {
	for _, n := range []int{1, 2, 4, 8} {
		l.command = []string{q.command, manyKeys}
		for i := range n {
			l.command = append(l.command, "1000000", strconv.Itoa(i+1)+"m")
		}
		steps = append(steps, step{thousands(float64(n)), l})
	}
	return steps
}

func connectionSteps(l load) (steps []step) {
	l.depth = 1
	for _, n := range []int{50, 100, 5000} {
		l.clients = n
		steps = append(steps, step{thousands(float64(n)), l})
	}
	return steps
}

// grow measures the steps of a series: each in 3 rounds of half the usual length, after a round that is
// not counted.
func grow(ctx context.Context, o options, g growth) (grown, error) {
	o.seconds /= 2
	out := grown{growth: g}
	for _, s := range g.steps {
		n, err := s.load.size(ctx, o)
		if err != nil {
			return out, err
		}
		var samples []sample
		for range 4 {
			one, err := s.load.run(ctx, n)
			if err != nil {
				return out, err
			}
			samples = append(samples, one)
		}
		out.samples = append(out.samples, medians(samples[1:]))
	}
	return out, nil
}
