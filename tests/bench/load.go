package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// target is one way to decide: what the load talks to, and what stands behind it.
type target struct {
	front *server
	proxy *server   // rlproxy, if it is asked
	nodes []*server // whose CPU is counted, and which are flushed between rounds
	fresh bool      // proxy keeps the state itself, and is started anew between rounds
}

// load is a command, asked again and again.
type load struct {
	target
	command []string // with the variable where a key's number stands
	keys    int      // how many the variable makes; 1: there is none
	clients int
	depth   int  // commands sent together on a connection
	cluster bool // the load generator finds each key's node itself
	random  int  // of random questions that warm it; 0: it is filled key by key
	loop    bool // one client, which waits for each answer
}

// sample is what one run of a load came to.
type sample struct {
	rate     float64 // decisions per second
	node     float64 // CPU of all nodes, us per decision
	busiest  float64 // of the busiest node
	least    float64 // percent of the script calls, at the node with the fewest
	most     float64 // and at the one with the most
	proxy    float64 // CPU of rlproxy, us per decision
	p50, p99 float64 // latency, us
}

// perCore is how many decisions a second a core of the node's machine carries.
func (s *sample) perCore() float64 { return 1e6 / s.node }

// prepare brings both sides into the same state: nothing but each key, once.
func (l load) prepare(ctx context.Context) error {
	for _, n := range l.nodes {
		if _, err := ask(n.port, "FLUSHALL", "SYNC"); err != nil {
			return err
		}
	}
	switch {
	case l.fresh:
		l.proxy.stop()
		if err := l.proxy.launch(ctx); err != nil {
			return err
		}
	case l.proxy != nil && l.keys == 1 && len(l.command) > 1:
		if _, err := ask(l.proxy.port, "RL.RESET", l.command[1]); err != nil {
			return err
		}
	}
	switch {
	case l.keys == 1:
		return nil
	case l.random > 0:
		return l.benchmark(ctx, l.random, new(sample))
	}
	return l.fill(ctx)
}

// run sends n commands and measures.
func (l load) run(ctx context.Context, n int) (s sample, err error) {
	nodes, proxy, err := l.cpu()
	if err != nil {
		return s, err
	}
	calls, err := l.calls()
	if err != nil {
		return s, err
	}
	if l.loop {
		err = l.closed(ctx, n, &s)
	} else {
		err = l.benchmark(ctx, n, &s)
	}
	if err != nil {
		return s, err
	}
	nodesAfter, proxyAfter, err := l.cpu()
	for i := range nodes {
		used := (nodesAfter[i] - nodes[i]) * 1e6 / float64(n)
		s.node += used
		s.busiest = max(s.busiest, used)
	}
	s.proxy = (proxyAfter - proxy) * 1e6 / float64(n)
	return s, errors.Join(err, l.shares(&s, calls))
}

// shares tells how script calls were spread over the nodes since there were so many.
func (l load) shares(s *sample, before []float64) error {
	after, err := l.calls()
	sum := 0.0
	for i := range after {
		after[i] -= before[i]
		sum += after[i]
	}
	if sum > 0 {
		s.least, s.most = 100*slices.Min(after)/sum, 100*slices.Max(after)/sum
	}
	return err
}

// calls is how often each node has run a script.
func (l load) calls() (calls []float64, err error) {
	for _, n := range l.nodes {
		c, err := n.scriptCalls()
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

func (l load) cpu() (nodes []float64, proxy float64, err error) {
	for _, n := range l.nodes {
		used, err := n.nodeCPU()
		if err != nil {
			return nil, 0, err
		}
		nodes = append(nodes, used)
	}
	if l.proxy != nil {
		proxy, err = l.proxy.processCPU()
	}
	return nodes, proxy, err
}

// arguments are those of redis-benchmark.
func (l load) arguments(n int) []string {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(l.front.port), "-c", strconv.Itoa(l.clients),
		"-n", strconv.Itoa(n), "-P", strconv.Itoa(l.depth), "--csv"}
	if l.keys > 1 {
		args = append(args, "-r", strconv.Itoa(l.keys))
	}
	if l.cluster {
		args = append(args, "--cluster")
	}
	return append(args, l.command...)
}

// benchmark has redis-benchmark send n commands. It ends at the first error reply.
func (l load) benchmark(ctx context.Context, n int, s *sample) error {
	cmd := exec.CommandContext(ctx, "redis-benchmark", l.arguments(n)...) // #nosec G204 -- our own arguments
	var out, failure bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &failure
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, failure.String())
	}
	return s.parse(out.String())
}

// parse reads redis-benchmark's table.
func (s *sample) parse(out string) error {
	at := strings.Index(out, `"test",`)
	if at < 0 {
		return fmt.Errorf("redis-benchmark wrote no table: %q", out)
	}
	table := csv.NewReader(strings.NewReader(out[at:]))
	table.LazyQuotes = true
	lines, err := table.ReadAll()
	if err != nil || len(lines) != 2 {
		return fmt.Errorf("redis-benchmark wrote another table: %q: %w", out, err)
	}
	number := func(column string) float64 {
		i := slices.Index(lines[0], column)
		if i < 0 {
			err = errors.Join(err, fmt.Errorf("redis-benchmark has no column %s", column))
			return 0
		}
		v, wrong := strconv.ParseFloat(lines[1][i], 64)
		err = errors.Join(err, wrong)
		return v
	}
	s.rate = number("rps")
	s.p50, s.p99 = number("p50_latency_ms")*1000, number("p99_latency_ms")*1000
	return err
}
