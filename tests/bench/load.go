package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/tests/proc"
	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// target is the servers of a load.
type target struct {
	fronts  []*testbed.Server // the servers to which clients connect, in turn: rlproxies or nodes
	proxied bool              // fronts are rlproxies
	reached []string          // the addresses at which clients reach fronts, if not at their own
	nodes   []*testbed.Server // the nodes, whose CPU time is measured; they are flushed between rounds
	fresh   bool              // fronts have the embedded engine: they are restarted between rounds
}

// load is a command that clients send again and again.
type load struct {
	target
	script  string       // the script that the command runs, without .lua; empty: none
	command []string     // the command; the number of a key replaces the variable in it
	also    [][]string   // further commands, which are sent in turn with the first one
	keys    int          // the number of keys; if it is 1, the command has no variable
	skew    traffic.Zipf // how often each key is used; nil: all equally often
	clients int
	depth   int             // the number of commands that a client sends together
	cluster bool            // the load generator finds the node of each key itself
	random  int             // the number of requests for random keys that fill the keys; 0: they are filled one by one
	warm    float64         // the seconds of load before a round that bring the keys into their usual state
	even    int             // the number of requests in each of these seconds; 0: as many as the clients send
	send    sender          // what sends the commands
	rate    float64         // the requests per second of an open loop; 0: half of what both sides reach
	near    time.Duration   // answers are measured for so long before and after the first denial; 0: all are
	trial   int             // the number of commands of a short run that sizes a round; 0: some 3,000
	stopped *testbed.Server // the node that is suspended in the middle half of a round; nil: none
}

// sender is what sends the commands of a load. The zero value is redis-benchmark.
type sender int

const (
	benchmark sender = iota // redis-benchmark
	waiting                 // one client, which waits for each answer
	together                // clients of package traffic, each of which waits for the answers to its pipeline
	paced                   // an open loop of package traffic: requests are sent at their times, whether those before them are answered or not
)

// sample is the result of one run of a load.
type sample struct {
	traffic.Figures
	node    float64 // CPU time of all nodes, in us per decision
	busiest float64 // CPU time of the busiest node, in us per decision
	calls   float64 // calls of scripts or functions per decision
	least   float64 // the share of these calls that the node with the fewest got, in percent
	most    float64 // the share of these calls that the node with the most got, in percent
	proxy   float64 // CPU time of all rlproxies, in us per decision
	denied  float64 // the share of denials, in percent; 0 if an rlproxy without http-port decides
}

// perCore returns the decisions per second with which the node uses all of a core.
func (s *sample) perCore() float64 { return 1e6 / s.node }

// prepare brings a side into the state in which both begin: each key has had one request.
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

// empty removes all keys, and launches fronts that do not run yet.
func (l load) empty(ctx context.Context) error {
	for _, n := range l.nodes {
		if _, err := traffic.Ask(n.Address(), "FLUSHALL", "SYNC"); err != nil {
			return err
		}
	}
	for _, f := range l.fronts {
		if l.fresh {
			f.Stop()
		}
		if l.fresh || !f.Launched() {
			if err := f.Launch(ctx); err != nil {
				return err
			}
		}
	}
	if l.proxied && !l.fresh && l.keys == 1 && len(l.command) > 1 {
		_, err := traffic.Ask(l.fronts[0].Address(), "RL.RESET", l.command[1])
		return err
	}
	return nil
}

// run sends n commands and measures what they take.
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

// admitted returns how many requests the servers have admitted so far.
func (l load) admitted(ctx context.Context) (sum float64, err error) {
	count := l.nodes
	if l.proxied {
		count = l.fronts
	}
	for _, s := range count {
		n, wrong := s.Admitted(ctx)
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
	p := traffic.Plan{Commands: append([][]string{l.command}, l.also...), Keys: l.keys, Skew: l.skew, Clients: l.clients, Depth: l.depth,
		Servers: slices.Clone(l.reached), Near: l.near}
	if l.reached != nil {
		return p
	}
	for _, f := range l.fronts {
		p.Servers = append(p.Servers, f.Address())
	}
	return p
}

// pause suspends and resumes the node to be stopped. It returns nil if there is none.
func (l load) pause() *traffic.Pause {
	if l.stopped == nil {
		return nil
	}
	return &traffic.Pause{
		Begin: func() { l.stopped.Signal(syscall.SIGSTOP) },
		End:   func() { l.stopped.Signal(syscall.SIGCONT) },
	}
}

// fill sends one request for each key: to all nodes, or to one of the rlproxies that share them.
func (l load) fill(ctx context.Context) error {
	plan := l.plan()
	if l.proxied {
		plan.Servers = plan.Servers[:1]
	}
	return plan.Fill(ctx)
}

// shares sets how many calls of scripts were made for n decisions, and how they were spread over the nodes. before is
// what calls returned earlier.
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

// calls returns how often each node was sent a script or the call of a function.
func (l load) calls() (calls []float64, err error) {
	for _, n := range l.nodes {
		c, err := n.ScriptCalls()
		if err != nil {
			return nil, err
		}
		calls = append(calls, c)
	}
	return calls, nil
}

// cpu returns the CPU time that each node and all rlproxies together have used, in seconds.
func (l load) cpu() (nodes []float64, proxy float64, err error) {
	for _, n := range l.nodes {
		used, err := n.NodeCPU()
		if err != nil {
			return nil, 0, err
		}
		nodes = append(nodes, used)
	}
	if l.proxied {
		for _, p := range l.fronts {
			used, err := proc.CPU(p.PID())
			if err != nil {
				return nil, 0, err
			}
			proxy += used.Seconds()
		}
	}
	return nodes, proxy, nil
}

// arguments returns the arguments of redis-benchmark for n commands.
func (l load) arguments(n int) []string {
	args := []string{"-h", "127.0.0.1", "-p", strconv.Itoa(l.fronts[0].Port), "-c", strconv.Itoa(l.clients),
		"-n", strconv.Itoa(n), "-P", strconv.Itoa(l.depth)}
	if l.keys > 1 {
		args = append(args, "-r", strconv.Itoa(l.keys))
	}
	if l.cluster {
		args = append(args, "--cluster")
	}
	return append(args, l.command...)
}
