package main

import (
	"fmt"
	"strconv"

	"github.com/rlproxy/rlproxy/tests/testbed"
)

// quarters is the number of redis-servers over which a key is split.
const quarters = 4

// openSplit starts the redis-servers of the split key and rlproxy on them, which splits no key because
// of its load.
func (l *lab) openSplit() error {
	args := []string{"--advance", "no", "--hot-key-threshold", "0"}
	for range quarters {
		s, err := l.Redis(nil)
		if err != nil {
			return err
		}
		l.shards = append(l.shards, s)
		args = append(args, "--backend", "redis://"+s.Address())
	}
	var err error
	l.split, err = l.RLProxy(args...)
	return err
}

// splitCases compare a key that is split over several redis-servers with a key on one of them, through the same
// rlproxy. One client that waits for each answer has nothing combined: each decision is a call of its own on both
// sides, as it nearly is if many proxies ask for little each.
func (l *lab) splitCases(q algorithm) (all []comparison) {
	for _, c := range []struct {
		title          string
		shards         int
		clients, depth int
	}{
		{"one client", 2, 1, 1},
		{"one client", quarters, 1, 1},
		{"50 clients", quarters, clients, 1},
		{"50 clients", quarters, clients, 16},
	} {
		a := load{
			target:  target{fronts: []*testbed.Server{l.split}, proxied: true, nodes: l.shards},
			command: asked{q, "whole", trillion, 1000}.proxied(), keys: 1, clients: c.clients, depth: c.depth, warm: 1,
		}
		b := a
		b.command = append(asked{q, "split", trillion, 1000}.proxied(), "SHARDS", strconv.Itoa(c.shards))
		title := fmt.Sprintf("%s, one hot key, %s, SHARDS %d", q.command, c.title, c.shards)
		all = append(all, comparison{splitting, title, []load{a}, b, []*figure{byAllCPU, byBusiest, byProxyCPU, byCrossing}, nil})
	}
	return all
}

// carried returns the calls per second with which a node uses all of a core.
func (s *sample) carried() float64 { return s.calls * s.perCore() }

// crossing returns the calls per second from which on the answer of a split key comes sooner than the one of a key on
// one node, if the time at a node grows with the share of its core that is in use, as 1 / (1 - share). Splitting makes
// the work as many times more as all nodes then use, and leaves the part of it that the busiest node uses.
func crossing(whole, split sample) float64 {
	more, left := split.node/whole.node, split.busiest/whole.node
	if more <= 1 {
		return 0
	}
	return (more - 1) / (more - min(left, 1)) * whole.carried()
}
