// Command bench compares rlproxy with the scripts that an application would
// otherwise send to Redis itself. It starts redis-servers and rlproxy on free
// ports, loads both with redis-benchmark in alternating rounds, and compares
// medians. `make bench` starts it from the repository's root and makes it write
// docs/benchmarks.md and docs/benchmarks.svg.
//
// Reading order: main.go; cases.go, everyday.go, openloop.go and fleet.go (what is
// compared), compare.go (how); load.go (the load) and package traffic (clients that
// redis-benchmark does not have); lab.go, cluster.go, split.go and package testbed (the
// servers); growth.go (the cost as work grows) and memory.go (what a key takes);
// report.go, tables.go and plot.go (what comes out).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are how thoroughly to measure.
type options struct {
	rounds  int
	seconds float64        // duration of the load on each side in each round
	keys    int            // number of keys of the cases with many keys
	most    int            // number of keys of the largest key space
	warm    float64        // the longest time in seconds for which a case is warmed up
	only    *regexp.Regexp // the names of the cases to measure
}

// quickly matches the cases that -quick measures: those of the tables that take a minute.
const quickly = "^(" + decisions + "|" + splitting + "|" + latency + "|" + ceilings + ")/"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	binary := flags.String("rlproxy", "bin/rlproxy", "the binary to measure")
	docs := flags.String("docs", "", "folder to write benchmarks.md and benchmarks.svg to; empty: print only")
	quick := flags.Bool("quick", false, "short rounds and fewer keys: for use while working, not for quoting")
	only := flags.String("only", "", "measure only the cases whose name matches")
	rounds := flags.Int("rounds", 5, "rounds, each of which measures both sides")
	seconds := flags.Float64("seconds", 1, "of load on each side in each round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *quick && *only == "" {
		*only = quickly
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	o := options{*rounds, *seconds, 100_000, 10_000_000, 10, pattern}
	if *quick {
		o = options{2, 0.15, 10_000, 1_000_000, 0.15, pattern}
	}
	if *docs != "" && (*quick || *only != "" || o.rounds < 5) {
		return errors.New("-docs needs all cases and at least 5 rounds: it cannot be used with -quick or -only")
	}
	busy := otherWork()
	l, err := openLab(ctx, *binary)
	if err != nil {
		return err
	}
	defer l.Close()
	began := time.Now()
	r := report{machine: describe(ctx, l), busy: busy, options: o}
	if err := measure(ctx, l, o, &r); err != nil {
		return err
	}
	r.took = time.Since(began)
	fmt.Println()
	fmt.Print(r.tables())
	if *docs == "" {
		return nil
	}
	return r.write(*docs)
}

// measure measures all cases, prints the result of each, and adds it to the report.
func measure(ctx context.Context, l *lab, o options, r *report) error {
	for _, c := range cases(l, o) {
		if !o.only.MatchString(c.name()) {
			continue
		}
		row, err := compare(ctx, o, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name(), err)
		}
		r.rows = append(r.rows, row)
		fmt.Println(row)
	}
	l.closeFleet()
	for _, k := range kinds(l, o) {
		if !o.only.MatchString(k.name()) {
			continue
		}
		row, err := k.measure(ctx, l)
		if err != nil {
			return fmt.Errorf("%s: %w", k.name(), err)
		}
		r.sizes = append(r.sizes, row)
		fmt.Println(row)
	}
	for _, s := range growths(l, o) {
		if !o.only.MatchString(growing + "/" + s.name) {
			continue
		}
		steps, err := grow(ctx, o, s)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		r.growths = append(r.growths, steps)
		fmt.Println(steps)
	}
	return nil
}
