// Command instructions counts the instructions that a redis-server executes for a decision, under valgrind. Unlike times,
// these counts differ by only 1 or 2 % from run to run. They are compared with a baseline in a file, as multiples of what the
// sorted-set script takes in the same run, so that they apply to another build of Redis, too. `make instructions` starts it from
// the repository's root.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"github.com/rlproxy/rlproxy/tests/testbed"
)

// slack is by how much a case may exceed its baseline. Processors of other makes differ a bit more than runs do: the C
// library has functions of its own for each.
const slack = 1.05

// slackOfSplit is the slack for a split key. Leases end by the clock, so more loans are
// counted if the machine is busy.
const slackOfSplit = 1.2

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "instructions:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGPIPE)
	defer stop()
	flags := flag.NewFlagSet("instructions", flag.ContinueOnError)
	binary := flags.String("rlproxy", "bin/rlproxy", "the binary to use")
	file := flags.String("baseline", "tests/instructions/baseline.txt", "file with the baseline")
	update := flags.Bool("update", false, "write the baseline instead of comparing with it")
	only := flags.String("only", "", "count only the cases whose name matches")
	if err := flags.Parse(args); err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	baseline := map[string]float64{}
	switch {
	case !*update:
		if baseline, err = readBaseline(*file); err != nil {
			return err
		}
	case *only != "":
		return errors.New("-update writes the whole baseline, and -only leaves out cases")
	}
	bed, err := testbed.Open(ctx, *binary)
	if err != nil {
		return err
	}
	defer bed.Close()
	return compare(ctx, bed, pattern, baseline, *file, *update)
}

// compare counts all cases whose names match. It returns an error if a case takes more than the baseline says, or writes
// the baseline.
func compare(ctx context.Context, bed *testbed.Testbed, only *regexp.Regexp, baseline map[string]float64, file string, update bool) error {
	node, err := bed.Redis(nil) // now the scripts have their names
	if err != nil {
		return err
	}
	node.Stop()
	direct := math.Inf(1)
	for range 2 { // the lower count: what a server happens to do by the clock must not make all cases look cheap
		n, err := countCase(ctx, bed, unit(bed))
		if err != nil {
			return err
		}
		direct = min(direct, n)
	}
	fmt.Printf("EVALSHA of the sorted-set log: %.0f instructions\n", direct)
	var measured strings.Builder
	var dearer []error
	for _, c := range cases(bed) {
		if !only.MatchString(c.label()) {
			continue
		}
		n, err := countCase(ctx, bed, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.label(), err)
		}
		was, known := baseline[c.label()]
		bound := was * slack
		if c.split != "" {
			bound = was * slackOfSplit
		}
		for tries := 0; known && n/direct > bound && tries < 3; tries++ {
			again, err := countCase(ctx, bed, c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.label(), err)
			}
			n = min(n, again)
		}
		fmt.Fprintf(&measured, "%s %.3f\n", c.label(), n/direct)
		fmt.Printf("%-26s %8.0f  %.3f (baseline %.3f)\n", c.label(), n, n/direct, was)
		switch {
		case update:
		case !known:
			dearer = append(dearer, fmt.Errorf("%s is not in %s", c.label(), file))
		case n/direct > bound:
			dearer = append(dearer, fmt.Errorf("%s takes %.3f times as many instructions as the sorted-set script, and %.3f in the baseline", c.label(), n/direct, was))
		}
	}
	if update {
		return os.WriteFile(file, []byte(measured.String()), 0o600)
	}
	return errors.Join(dearer...)
}

// readBaseline reads a file that has a line for each case: its label and its multiple of the sorted-set script.
func readBaseline(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the file that was named
	if err != nil {
		return nil, err
	}
	baseline := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%s: %q is not a case and its multiple", file, line)
		}
		if baseline[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return baseline, nil
}
