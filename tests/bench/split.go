package main

// quarters is how many redis-servers a key is split over.
const quarters = 4

// openSplit starts the redis-servers of the split key and rlproxy on them. No key is
// split by its load alone.
func (l *lab) openSplit() error {
	args := []string{"--hot-key-threshold", "0"}
	for range quarters {
		s, err := l.redis(nil)
		if err != nil {
			return err
		}
		l.shards = append(l.shards, s)
		args = append(args, "--backend", "redis://"+s.address())
	}
	var err error
	l.split, err = l.rlproxy(args...)
	return err
}

// splitCase compares a hot key that is split over four redis-servers with one that
// lies on one of them. One client waits for each answer, so that nothing can be
// combined: each decision is a call of its own, on both sides.
func (l *lab) splitCase(q algorithm) comparison {
	a := load{
		target:  target{fronts: []*server{l.split}, proxied: true, nodes: l.shards},
		command: asked{q, "whole", trillion, 1000}.proxied(), keys: 1, clients: 1, depth: 1, warm: 1,
	}
	b := a
	b.command = append(asked{q, "split", trillion, 1000}.proxied(), "SHARDS", "4")
	return comparison{splitting, q.command + ", one hot key on 4 redis-servers, SHARDS 4, combining off", []load{a}, b, []*figure{byAllCPU, byBusiest}, nil}
}
