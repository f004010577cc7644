package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"

	"github.com/rlproxy/rlproxy/tests/proc"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// target is one way to decide: what the load talks to, and what stands behind it.
type target struct {
	fronts  []*server // rlproxies or nodes, over which connections are spread
	proxied bool      // the fronts are rlproxies
	nodes   []*server // whose CPU is counted, and which are flushed between rounds
	fresh   bool      // the front keeps the state itself, and is started anew between rounds
}

// load is a command, asked again and again.
type load struct {
	target
	script  string       // in scripts/, without .lua: what the command runs; empty: no script
	command []string     // with the variable where a key's number stands
	also    [][]string   // further commands, asked in turn with the first one
	keys    int          // how many the variable makes; 1: there is none
	skew    traffic.Zipf // which keys are asked about how often; nil: all of them equally
	clients int
	depth   int     // commands sent together on a connection
	cluster bool    // the load generator finds each key's node itself
	random  int     // requests about random keys that warm it; 0: it is filled key by key
	warm    float64 // seconds of load before each round that bring its keys into their usual state
	even    int     // requests in each second of that load; 0: as many as clients make
	send    sender
	rate    float64 // requests per second of an open loop; 0: half of what both sides reach
	stopped *server // the node that does not run in the middle half of a round
}

// sender is what sends the commands of a load. The zero value is redis-benchmark.
type sender int

const (
	benchmark sender = iota // redis-benchmark
	waiting                 // one client, which waits for each answer
	together                // clients of our own, each of which waits for the answers to a pipeline
	paced                   // an open loop: requests have their times, whatever became of those before
)

// sample is what one run of a load came to.
type sample struct {
	traffic.Figures
	node    float64 // CPU of all nodes, us per decision
	busiest float64 // CPU of the busiest node, us per decision
	calls   float64 // script calls per decision
	least   float64 // percent of the script calls, at the node with the fewest
	most    float64 // percent of the script calls, at the node with the most
	proxy   float64 // CPU of all rlproxies, us per decision
	denied  float64 // percent of the decisions; only where an rlproxy with an http-port makes them, or scripts
}

// perCore is how many decisions a second a core of the node's machine carries.
func (s *sample) perCore() float64 { return 1e6 / s.node }

// prepare brings both sides into the same state: nothing but each key, once.
func (l load) prepare(ctx context.Context) error {
	if err := l.empty(ctx); err != nil {
		return err
	}
	switch {
	case l.keys == 1:
		return nil
	case l.random > 0:
		return l.drive(ctx, l.random, new(sample))
	}
	return l.fill(ctx)
}

// empty forgets all keys, and starts fronts that do not run yet.
func (l load) empty(ctx context.Context) error {
	for _, n := range l.nodes {
		if _, err := traffic.Ask(n.address(), "FLUSHALL", "SYNC"); err != nil {
			return err
		}
	}
	for _, f := range l.fronts {
		if l.fresh {
			f.stop()
		}
		if l.fresh || f.cmd == nil {
			if err := f.launch(ctx); err != nil {
				return err
			}
		}
	}
	if l.proxied && !l.fresh && l.keys == 1 && len(l.command) > 1 {
		_, err := traffic.Ask(l.fronts[0].address(), "RL.RESET", l.command[1])
		return err
	}
	return nil
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
	admitted, err := l.admitted(ctx)
	if err != nil {
		return s, err
	}
	if err := l.drive(ctx, n, &s); err != nil {
		return s, err
	}
	nodesAfter, proxyAfter, err := l.cpu()
	for i := range nodes {
		used := (nodesAfter[i] - nodes[i]) * 1e6 / float64(n)
		s.node += used
		s.busiest = max(s.busiest, used)
	}
	s.proxy = (proxyAfter - proxy) * 1e6 / float64(n)
	admittedAfter, wrong := l.admitted(ctx)
	s.denied = max(100*(1-(admittedAfter-admitted)/float64(n)), 0)
	return s, errors.Join(err, wrong, l.shares(&s, calls, n))
}

// admitted is how many requests were admitted until now: as the rlproxies with an http-port
// count them, or by what scripts have written to the nodes.
func (l load) admitted(ctx context.Context) (sum float64, err error) {
	count := l.nodes
	if l.proxied {
		count = l.fronts
	}
	for _, s := range count {
		n, wrong := s.admitted(ctx)
		sum, err = sum+n, errors.Join(err, wrong)
	}
	return sum, err
}

// drive sends n commands.
func (l load) drive(ctx context.Context, n int, s *sample) (err error) {
	plan := l.plan()
	switch l.send {
	case waiting:
		s.Figures, err = plan.Wait(ctx, n)
	case together:
		s.Figures, err = plan.Ask(ctx, n)
	case paced:
		s.Figures, err = plan.Pace(ctx, n, l.rate, l.pause())
	default:
		s.Figures, _, err = traffic.Benchmark(ctx, l.arguments(n)...)
	}
	return err
}

func (l load) plan() traffic.Plan {
	p := traffic.Plan{Commands: append([][]string{l.command}, l.also...), Keys: l.keys, Skew: l.skew, Clients: l.clients, Depth: l.depth}
	for _, f := range l.fronts {
		p.Servers = append(p.Servers, f.address())
	}
	return p
}

// pause stops the node that is to stand still; nil: none is.
func (l load) pause() *traffic.Pause {
	if l.stopped == nil {
		return nil
	}
	return &traffic.Pause{
		Begin: func() { l.stopped.signal(syscall.SIGSTOP) },
		End:   func() { l.stopped.signal(syscall.SIGCONT) },
	}
}

// fill asks for every key once: at all nodes, or at one rlproxy of those that share their nodes.
func (l load) fill(ctx context.Context) error {
	plan := l.plan()
	if l.proxied {
		plan.Servers = plan.Servers[:1]
	}
	return plan.Fill(ctx)
}

// shares returns how script calls for n decisions were spread over the nodes since there
// were so many.
func (l load) shares(s *sample, before []float64, n int) error {
	after, err := l.calls()
	sum := 0.0
	for i := range after {
		after[i] -= before[i]
		sum += after[i]
	}
	if s.calls = sum / float64(n); sum > 0 {
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
	if l.proxied {
		for _, p := range l.fronts {
			used, err := proc.CPU(p.cmd.Process.Pid)
			if err != nil {
				return nil, 0, err
			}
			proxy += used.Seconds()
		}
	}
	return nodes, proxy, nil
}

// arguments are those of redis-benchmark.
func (l load) arguments(n int) []string {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(l.fronts[0].port), "-c", strconv.Itoa(l.clients),
		"-n", strconv.Itoa(n), "-P", strconv.Itoa(l.depth)}
	if l.keys > 1 {
		args = append(args, "-r", strconv.Itoa(l.keys))
	}
	if l.cluster {
		args = append(args, "--cluster")
	}
	return append(args, l.command...)
}
