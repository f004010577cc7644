package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// Instructions that a redis-server executes for a decision, as valgrind counts them: the cost of the scripts, steady
// from run to run where times are not. They are given as multiples of what the sorted-set log of scripts/log.lua takes
// in the same run, so that another build of Redis moves both.

// slack is by how much a case may exceed its baseline. Runs differ by 1 or 2 %, and processors of other makes by a bit more:
// the C library has functions of its own for each.
const slack = 1.05

// slackOfSplit is slack for a key that is split: leases end by the clock, so the busier the machine is, the more loans
// are among what counts.
const slackOfSplit = 1.2

// counted is a case: what a client asks, of as many keys, so many times together.
type counted struct {
	name     string
	commands [][]string // asked in turn, a pipeline each; the variable stands for the key's number
	keys     int
	depth    int
	before   int      // pipelines that are asked before those that count
	direct   bool     // of the node itself, by the sorted-set log
	setup    []string // in place of the command, in the pipelines before; empty: the same
	together bool     // all commands are asked of a key, one after the other, and count as one
	split    string   // "home" or "shard": where a split key is asked
}

// unique stands for an id that no other key and no other pipeline asks with.
const unique = "unique"

// costs stands for 1 and 2 in turn, each when all keys have been asked: a denial that rlproxy remembers is of another
// cost, so the node is asked.
const costs = "costs"

func countedCases(l *lab) (all []counted) {
	one := func(words ...string) [][]string { return [][]string{words} }
	for _, depth := range []int{1, 16} {
		for _, name := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
			all = append(all, counted{name: name, commands: one(name, manyKeys, "1000", "1h"), keys: 100, depth: depth})
		}
	}
	logCase := func(depth int, name string, direct bool, setup []string, words ...string) counted {
		// A ring of 99 slots has grown before what counts, and with one request a call it does not grow again.
		const keys, entries = 48, 104
		return counted{name: name, direct: direct, setup: setup, commands: one(words...), keys: keys, depth: depth, before: keys * entries / depth}
	}
	// A day's log has an entry for 1.3 s, so that it stays short however busy the machine is.
	reserve := []string{"RL.RESERVE", manyKeys, "1000000", "24h", "COST", "5", "ID", unique, "TTL", "10m"}
	pair := [][]string{reserve, {"RL.SETTLE", manyKeys, unique, "3"}}
	for _, depth := range []int{1, 16} {
		all = append(all,
			counted{name: "RL.SLIDE ONCE", commands: one("RL.SLIDE", manyKeys, "1000", "1h", "ONCE", unique), keys: 100, depth: depth},
			counted{name: "RL.RESERVE and RL.SETTLE", commands: pair, keys: 100, depth: depth, together: true})
	}
	all = append(all, counted{name: "RL.RESERVE LAPSE RELEASE and RL.SETTLE", commands: [][]string{append(slices.Clone(reserve), "LAPSE", "RELEASE"), pair[1]},
		keys: 100, depth: 1, together: true},
		counted{name: "RL.ACQUIRE and RL.RELEASE", commands: [][]string{{"RL.ACQUIRE", manyKeys, "1000", "ID", unique, "TTL", "10m"}, {"RL.RELEASE", manyKeys, unique}},
			keys: 100, depth: 1, together: true})
	for _, out := range []int{16, 1008, 16_000} { // holds of one key
		all = append(all, counted{name: fmt.Sprintf("RL.RESERVE and RL.SETTLE beside %d", out), commands: pair, keys: 1, depth: 1, together: true,
			setup: reserve, before: out})
	}
	day := []string{"RL.SLIDE", manyKeys, "60000", "24h"}
	ofDay := [][]string{{"RL.RESERVE", manyKeys, "60000", "24h", "COST", "5", "ID", unique, "TTL", "10m"}, pair[1]}
	for _, depth := range []int{1, 16} {
		all = append(all,
			counted{name: "RL.SLIDE beside a hold", commands: [][]string{day}, keys: 48, depth: depth, setup: ofDay[0], before: 48 * 8 / depth},
			counted{name: "RL.RESERVE and RL.SETTLE, log of 100", commands: ofDay, keys: 48, depth: depth, together: true, setup: day, before: 48 * 104 / depth})
	}
	denied := append(slices.Clone(ofDay[0][:2]), "100", "24h", "COST", "5", "ID", unique, "TTL", "10m")
	held := append(slices.Clone(ofDay[0][:2]), "100", "24h", "COST", "50", "ID", unique, "TTL", "10m")
	for _, depth := range []int{1, 16} {
		all = append(all,
			counted{name: "RL.RESERVE denied, log of 100", commands: one(denied...), keys: 48, depth: depth, setup: []string{"RL.SLIDE", manyKeys, "100", "24h"}, before: 48 * 104 / depth},
			counted{name: "RL.RESERVE denied beside holds", commands: one(denied...), keys: 48, depth: depth, setup: held, before: 48 * 3 / depth})
	}
	slide := asked{algorithms[0], manyKeys, 1000, 3_600_000}
	full := asked{algorithms[0], manyKeys, 100, 3_600_000}
	for _, depth := range []int{1, 16} {
		all = append(all,
			logCase(depth, "sorted set of 100", true, nil, slide.direct(l)...),
			logCase(depth, "RL.SLIDE log of 100", false, nil, slide.proxied()...),
			logCase(depth, "sorted set of 100 denied", true, nil, full.direct(l)...),
			logCase(depth, "RL.SLIDE log of 100 denied", false, full.proxied(), append(full.proxied(), "COST", costs)...))
	}
	return append(all,
		counted{name: "RL.SLIDE 2 windows", commands: one("RL.SLIDE", manyKeys, "1000", "1h", "2000", "2h"), keys: 100, depth: 16},
		counted{name: "RL.COUNTER 2 windows", commands: one("RL.COUNTER", manyKeys, "1000", "1h", "2000", "2h"), keys: 100, depth: 16},
		counted{name: "RL.COUNTER BUCKETS 10", commands: one("RL.COUNTER", manyKeys, "1000", "1h", "BUCKETS", "10"), keys: 100, depth: 16},
		counted{name: "CL.THROTTLE", commands: one("CL.THROTTLE", manyKeys, "1000", "1000", "3600"), keys: 100, depth: 16},
		counted{name: "RL.SLIDE one key", commands: one("RL.SLIDE", "hot", "1000000", "1h"), keys: 1, depth: 16},
		counted{name: "RL.SLIDE 2 windows apart", keys: 100, depth: 16, commands: [][]string{
			{"RL.SLIDE", manyKeys, "1000", "1h"}, {"RL.SLIDE", manyKeys, "2000", "2h"}}},
		counted{name: "RL.COUNTER beside RL.SLIDE", keys: 100, depth: 16, before: 7, setup: []string{"RL.SLIDE", manyKeys, "1000", "1h"},
			commands: one("RL.COUNTER", manyKeys, "1000", "1h")},
		counted{name: "RL.SLIDE at the home", commands: one("RL.SLIDE", manyKeys, "1000000", "1h", "SHARDS", "2", "ID"), keys: 16, depth: 16, before: 5, split: "home"},
		counted{name: "RL.SLIDE at a shard", commands: one("RL.SLIDE", manyKeys, "1000000", "1h", "SHARDS", "2", "ID"), keys: 16, depth: 16, before: 5, split: "shard"},
	)
}

func (c counted) label() string { return fmt.Sprintf("%s/P%d", c.name, c.depth) }

// countInstructions measures every case and compares it with the baseline in a file, which update writes anew.
func countInstructions(ctx context.Context, binary, file string, update bool, only *regexp.Regexp) error {
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
	node, err := l.redis(nil) // for the names of the scripts
	if err != nil {
		return err
	}
	node.stop()
	direct := math.Inf(1)
	for range 2 { // the lower one: what else a server does by the clock must not make all cases look cheap
		n, err := l.instructions(counted{keys: 100, depth: 16, direct: true,
			commands: [][]string{asked{algorithms[0], manyKeys, 1000, 3_600_000}.direct(l)}})
		if err != nil {
			return err
		}
		direct = min(direct, n)
	}
	fmt.Printf("EVALSHA of the sorted-set log: %.0f instructions\n", direct)
	var now strings.Builder
	var more []error
	for _, c := range countedCases(l) {
		if !only.MatchString(c.label()) {
			continue
		}
		n, err := l.instructions(c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.label(), err)
		}
		was, known := old[c.label()]
		bound := was * slack
		if c.split != "" {
			bound = was * slackOfSplit
		}
		for tries := 0; known && n/direct > bound && tries < 3; tries++ {
			again, err := l.instructions(c)
			if err != nil {
				return fmt.Errorf("%s: %w", c.label(), err)
			}
			n = min(n, again)
		}
		fmt.Fprintf(&now, "%s %.3f\n", c.label(), n/direct)
		fmt.Printf("%-26s %8.0f  %.3f (baseline %.3f)\n", c.label(), n, n/direct, was)
		switch {
		case update:
		case !known:
			more = append(more, fmt.Errorf("%s is not in %s", c.label(), file))
		case n/direct > bound:
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

// instructions returns how many instructions a new redis-server executes for a decision of a case. Only pipelines that
// come after each key has been asked count, and no log is too long for one piece after them. What comes before has to be left
// out, and not to be taken off the count of a second server: the order in which a server's hash tables find the names of
// commands is random, so the many calls that fill a log would differ by more than the few that count may.
func (l *lab) instructions(c counted) (float64, error) {
	first, count := 30, 60 // pipelines
	if c.depth == 1 {
		first, count = 200, 400
	}
	node, err := l.redis([]string{"valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"}, "--hz", "1")
	if err != nil {
		return 0, err
	}
	defer node.stop()
	front := node
	numbers := make([]int, c.keys)
	for i := range numbers {
		numbers[i] = i
	}
	switch {
	case c.split != "":
		other, err := l.redis(nil)
		if err != nil {
			return 0, err
		}
		defer other.stop()
		home := 0
		if c.split == "shard" {
			home = 1
		}
		numbers = homes(c.commands[0][1], home, c.keys, node, other)
		c.commands = [][]string{append(slices.Clip(c.commands[0]), idOf(home))}
		if front, err = l.rlproxy("--backend", "redis://"+node.address(), "--backend", "redis://"+other.address()); err != nil {
			return 0, err
		}
		defer front.stop()
	case !c.direct:
		if front, err = l.rlproxy("--backend", "redis://"+node.address()); err != nil {
			return 0, err
		}
		defer front.stop()
	}
	conn, err := traffic.Dial(front.address())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // all replies are read
	first += c.before
	if err := l.pipelines(conn, c, numbers, 0, first); err != nil {
		return 0, err
	}
	if err := node.countInstructions(l.ctx, "on"); err != nil {
		return 0, err
	}
	if err := l.pipelines(conn, c, numbers, first, first+count); err != nil {
		return 0, err
	}
	if err := node.countInstructions(l.ctx, "off"); err != nil {
		return 0, err
	}
	front.stop()
	node.stop()
	found := collected.FindStringSubmatch(node.out.String())
	if found == nil {
		return 0, fmt.Errorf("valgrind counted no instructions: %s", node.out.String())
	}
	n, err := strconv.ParseFloat(found[1], 64)
	return n / float64(count*c.depth), err
}

// collected is how valgrind reports its count when the server ends.
var collected = regexp.MustCompile(`Collected : (\d+)`)

// countInstructions has valgrind begin to count what the server executes ("on"), or stop counting ("off").
func (s *server) countInstructions(ctx context.Context, state string) error {
	out, err := exec.CommandContext(ctx, "vgdb", "--pid="+strconv.Itoa(s.cmd.Process.Pid), "instrumentation", state).CombinedOutput() // #nosec G204 -- our own
	if err != nil {
		return fmt.Errorf("vgdb: %w: %s", err, out)
	}
	return nil
}

// homes returns the numbers of keys whose home is the first of two nodes, or the second.
func homes(key string, home, count int, nodes ...*server) (numbers []int) {
	var names []string
	for _, n := range nodes {
		names = append(names, n.address()+"/0")
	}
	place := shard.NewNodes(names)
	for i := 0; len(numbers) < count; i++ {
		if place.Home([]byte(strings.Replace(key, traffic.Variable, fmt.Sprintf("%012d", i), 1))) == home {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// idOf returns an ID that has a request ask shard 0, the home, first, or shard 1: of two nodes the first
// is asked.
func idOf(number int) string {
	for i := 0; ; i++ {
		if id := strconv.Itoa(i); xxhash.Sum64String(id)%2 == uint64(number) {
			return id
		}
	}
}

// pipelines has one client ask the case's keys, which have these numbers, in turn: the pipelines from one to before
// another, of all that the case asks.
func (l *lab) pipelines(conn *traffic.Conn, c counted, numbers []int, from, to int) error {
	for i := from; i < to; i++ {
		if l.ctx.Err() != nil {
			return l.ctx.Err()
		}
		command := c.commands[i%len(c.commands)]
		if i < c.before && c.setup != nil {
			command = c.setup
		}
		var out []byte
		replies := 0
		for j := range c.depth {
			at := i*c.depth + j
			asks := [][]string{command}
			if c.together && (i >= c.before || c.setup == nil) {
				asks = c.commands
			}
			for _, words := range asks {
				words = slices.Clone(words)
				for k, word := range words {
					switch word {
					case costs:
						words[k] = strconv.Itoa(1 + at/c.keys%2)
					case unique:
						words[k] = "id" + strconv.Itoa(at)
					}
				}
				out = traffic.Encode(out, words, numbers[at%c.keys])
				replies++
			}
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		for range replies {
			if _, err := conn.Reply(); err != nil {
				return err
			}
		}
	}
	return nil
}
