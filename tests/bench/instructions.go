package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
)

// Instructions that a redis-server executes for a decision, as valgrind counts them: the cost of the scripts, steady
// from run to run where times are not. They are told as multiples of what the sorted-set log of scripts/log.lua takes
// in the same run, so that another build of Redis moves both.

// slack is by how much a case may exceed its baseline. Runs differ by 1 %, and processors of other makes by a bit more:
// the C library has functions of its own for each.
const slack = 1.05

// counted is a case: what a client asks, of as many keys, so many times together.
type counted struct {
	name    string
	command []string // none: of the node itself, the sorted-set log
	keys    int
	depth   int
}

func countedCases() (all []counted) {
	for _, depth := range []int{1, 16} {
		for _, name := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
			all = append(all, counted{name, []string{name, manyKeys, "1000", "1h"}, 100, depth})
		}
	}
	return append(all,
		counted{"RL.SLIDE 2 windows", []string{"RL.SLIDE", manyKeys, "1000", "1h", "2000", "2h"}, 100, 16},
		counted{"RL.COUNTER 2 windows", []string{"RL.COUNTER", manyKeys, "1000", "1h", "2000", "2h"}, 100, 16},
		counted{"RL.COUNTER BUCKETS 10", []string{"RL.COUNTER", manyKeys, "1000", "1h", "BUCKETS", "10"}, 100, 16},
		counted{"CL.THROTTLE", []string{"CL.THROTTLE", manyKeys, "1000", "1000", "3600"}, 100, 16},
		counted{"RL.SLIDE one key", []string{"RL.SLIDE", "hot", "1000000", "1h"}, 1, 16},
	)
}

func (c counted) label() string { return fmt.Sprintf("%s/P%d", c.name, c.depth) }

// countInstructions measures every case and compares it with the baseline in a file, which update writes anew.
func countInstructions(ctx context.Context, binary, file string, update bool) error {
	old := map[string]float64{}
	if !update {
		var err error
		if old, err = readBaseline(file); err != nil {
			return err
		}
	}
	l := &lab{ctx: ctx, shas: map[string]string{}, binary: binary}
	var err error
	if l.folder, err = os.MkdirTemp("", "bench"); err != nil {
		return err
	}
	defer l.close()
	direct, err := l.instructions(counted{keys: 100, depth: 16})
	if err != nil {
		return err
	}
	fmt.Printf("EVALSHA of the sorted-set log: %.0f instructions\n", direct)
	var now strings.Builder
	var more []error
	for _, c := range countedCases() {
		n, err := l.instructions(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.label(), err)
		}
		was, known := old[c.label()]
		fmt.Fprintf(&now, "%s %.3f\n", c.label(), n/direct)
		fmt.Printf("%-26s %8.0f  %.3f (baseline %.3f)\n", c.label(), n, n/direct, was)
		switch {
		case update:
		case !known:
			more = append(more, fmt.Errorf("%s is not in %s", c.label(), file))
		case n/direct > was*slack:
			more = append(more, fmt.Errorf("%s takes %.3f times the direct script, and took %.3f", c.label(), n/direct, was))
		}
	}
	if update {
		return os.WriteFile(file, []byte(now.String()), 0o600)
	}
	return errors.Join(more...)
}

// readBaseline reads lines of a case's label and its multiple.
func readBaseline(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file) // #nosec G304 -- the file that was named
	if err != nil {
		return nil, err
	}
	old := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		at := strings.LastIndexByte(line, ' ')
		if at < 0 {
			return nil, fmt.Errorf("%s: %q is not a case and its multiple", file, line)
		}
		if old[line[:at]], err = strconv.ParseFloat(line[at+1:], 64); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
	}
	return old, nil
}

// instructions counts a case: what a long run takes more than a short one, by decision.
func (l *lab) instructions(c counted) (float64, error) {
	// Pipelines: each key has been asked before the short run ends, and no log is too long for one piece after the long one.
	short, long := 30, 90
	if c.depth == 1 {
		short, long = 200, 600
	}
	a, err := l.runCounted(c, short)
	if err != nil {
		return 0, err
	}
	b, err := l.runCounted(c, long)
	return float64(b-a) / float64((long-short)*c.depth), err
}

var refs = regexp.MustCompile(`I +refs: +([\d,]+)`)

// runCounted runs a new redis-server for so many pipelines and returns all instructions of its life.
func (l *lab) runCounted(c counted, pipelines int) (int64, error) {
	node, err := l.redis([]string{"valgrind", "--tool=cachegrind", "--cache-sim=no", "--branch-sim=no",
		"--cachegrind-out-file=/dev/null"}, "--hz", "1")
	if err != nil {
		return 0, err
	}
	front := node
	if c.command == nil {
		c.command = asked{questions[0], manyKeys, 1000, 3_600_000}.direct(l)
	} else if front, err = l.rlproxy("--backend", "redis://"+address(node.port)); err != nil {
		return 0, err
	}
	if err := l.pipelines(front, c, pipelines); err != nil {
		return 0, err
	}
	front.stop()
	node.stop()
	found := refs.FindStringSubmatch(node.out.String())
	if found == nil {
		return 0, fmt.Errorf("valgrind tells no instructions: %s", node.out.String())
	}
	return strconv.ParseInt(strings.ReplaceAll(found[1], ",", ""), 10, 64)
}

// pipelines has one client ask the case's keys in turn.
func (l *lab) pipelines(front *server, c counted, n int) error {
	conn, err := dial(front.port)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // all replies are read
	for i := range n {
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		var out []byte
		for j := range c.depth {
			out = encode(out, c.command, (i*c.depth+j)%c.keys)
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		for range c.depth {
			if _, err := readReply(conn.r); err != nil {
				return err
			}
		}
	}
	return nil
}
