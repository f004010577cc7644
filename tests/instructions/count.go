package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// countCase returns how many instructions a new redis-server executes for a decision of a case. Counting begins after each key
// has been asked for, and ends before a short log gets too long for one piece. To subtract the count of a second server, which only
// fills the keys, would not do: the order in which a server's hash tables find the names of commands is random, so the
// many calls that fill a log differ by more than the few that are counted. There are no advances: how many keys are hot enough
// for them depends on the speed of the machine.
func countCase(ctx context.Context, bed *testbed.Testbed, c counted) (float64, error) {
	first, count := 30, 60 // pipelines
	if c.depth == 1 {
		first, count = 200, 400
	}
	first += c.before
	node, err := bed.Redis([]string{"valgrind", "--tool=callgrind", "--instr-atstart=no", "--callgrind-out-file=/dev/null"}, "--hz", "1")
	if err != nil {
		return 0, err
	}
	defer node.Stop()
	front := node
	numbers := make([]int, c.keys)
	for i := range numbers {
		numbers[i] = i
	}
	switch {
	case c.split != "":
		other, err := bed.Redis(nil)
		if err != nil {
			return 0, err
		}
		defer other.Stop()
		shard := 0
		if c.split == "shard" {
			shard = 1
		}
		numbers = homes(c.commands[0][1], shard, c.keys, node, other)
		c.commands = one(append(slices.Clip(c.commands[0]), idFor(shard))...)
		if front, err = bed.RLProxy("--advance", "no", "--backend", "redis://"+node.Address(), "--backend", "redis://"+other.Address()); err != nil {
			return 0, err
		}
		defer front.Stop()
	case !c.direct:
		if front, err = bed.RLProxy(append([]string{"--advance", "no", "--backend", "redis://" + node.Address()}, c.options...)...); err != nil {
			return 0, err
		}
		defer front.Stop()
	}
	conn, err := traffic.Dial(front.Address())
	if err != nil {
		return 0, err
	}
	defer func() { _ = conn.Close() }() // all replies are read
	if err := c.send(ctx, conn, numbers, 0, first); err != nil {
		return 0, err
	}
	if err := instrument(ctx, node, "on"); err != nil {
		return 0, err
	}
	if err := c.send(ctx, conn, numbers, first, first+count); err != nil {
		return 0, err
	}
	if err := instrument(ctx, node, "off"); err != nil {
		return 0, err
	}
	front.Stop()
	node.Stop()
	found := collected.FindStringSubmatch(node.Output())
	if found == nil {
		return 0, fmt.Errorf("valgrind counted no instructions: %s", node.Output())
	}
	n, err := strconv.ParseFloat(found[1], 64)
	return n / float64(count*c.depth), err
}

// collected matches the count that valgrind reports when the server ends.
var collected = regexp.MustCompile(`Collected : (\d+)`)

// instrument makes valgrind count what the server executes from now on ("on"), or stop counting ("off").
func instrument(ctx context.Context, s *testbed.Server, state string) error {
	out, err := exec.CommandContext(ctx, "vgdb", "--pid="+strconv.Itoa(s.PID()), "instrumentation", state).CombinedOutput() // #nosec G204 -- our own
	if err != nil {
		return fmt.Errorf("vgdb: %w: %s", err, out)
	}
	return nil
}

// homes returns the numbers of count keys whose home is the node of that index.
func homes(key string, index, count int, nodes ...*testbed.Server) (numbers []int) {
	var names []string
	for _, n := range nodes {
		names = append(names, n.Address()+"/0")
	}
	place := shard.NewPlacement(names)
	for i := 0; len(numbers) < count; i++ {
		if place.Home([]byte(strings.Replace(key, traffic.Variable, fmt.Sprintf("%012d", i), 1))) == index {
			numbers = append(numbers, i)
		}
	}
	return numbers
}

// idFor returns an ID whose requests ask a shard first, of a key with two: 0, the home, or 1. If the home is
// on the second node, shard 1 is on the first, which is counted.
func idFor(shard int) string {
	for i := 0; ; i++ {
		if id := strconv.Itoa(i); xxhash.Sum64String(id)%2 == uint64(shard) {
			return id
		}
	}
}

// send sends the pipelines from one index to before another, and reads the replies. numbers are those of the keys. It asks
// about no key twice in a millisecond: a log has one entry for what is admitted in the same one, so the entries, and when
// a log outgrows its piece, would depend on the speed of the machine.
func (c counted) send(ctx context.Context, conn *traffic.Conn, numbers []int, from, to int) error {
	var began time.Time
	for i := from; i < to; i++ {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if i%max(len(numbers)/c.depth, 1) == 0 { // each pipeline between has other keys
			time.Sleep(time.Millisecond - time.Since(began))
			began = time.Now()
		}
		request := [][]string{c.commands[i%len(c.commands)]}
		switch {
		case i < c.before && c.setup != nil:
			request = [][]string{c.setup}
		case c.together:
			request = c.commands
		}
		var out []byte
		for j := range c.depth {
			at := i*c.depth + j
			for _, words := range request {
				out = traffic.Encode(out, fill(words, at, len(numbers)), numbers[at%len(numbers)])
			}
		}
		if _, err := conn.Write(out); err != nil {
			return err
		}
		for range c.depth * len(request) {
			if _, err := conn.Reply(); err != nil {
				return err
			}
		}
	}
	return nil
}

// fill returns the words of request at, of requests for a number of keys in turn.
func fill(words []string, at, keys int) []string {
	words = slices.Clone(words)
	for i, word := range words {
		switch word {
		case unique:
			words[i] = "id" + strconv.Itoa(at)
		case costs:
			words[i] = strconv.Itoa(1 + at/keys%2)
		}
	}
	return words
}
