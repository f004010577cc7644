package main

import "github.com/rlproxy/rlproxy/tests/testbed"

// quarters is the number of redis-servers over which a key is split.
const quarters = 4

// openSplit starts the redis-servers of the split key and rlproxy on them, which splits no key because
// of its load.
func (l *lab) openSplit() error {
	args := []string{"--hot-key-threshold", "0"}
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

// splitCase compares a key that is split over four redis-servers with a key on one of them. One client waits
// for each answer, so that no requests can be combined: each decision is a call of its own on both
// sides.
func (l *lab) splitCase(q algorithm) comparison {
	a := load{
		target:  target{fronts: []*testbed.Server{l.split}, proxied: true, nodes: l.shards},
		command: asked{q, "whole", trillion, 1000}.proxied(), keys: 1, clients: 1, depth: 1, warm: 1,
	}
	b := a
	b.command = append(asked{q, "split", trillion, 1000}.proxied(), "SHARDS", "4")
	return comparison{splitting, q.command + ", one hot key on 4 redis-servers, SHARDS 4, combining off", []load{a}, b, []*figure{byAllCPU, byBusiest}, nil}
}
