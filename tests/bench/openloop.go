package main

import "github.com/rlproxy/rlproxy/tests/testbed"

// openLoopCases returns loads with a fixed rate: 10,000 requests a second, half of what both sides reach, and
// 10,000 while one of three nodes is suspended for half of the time.
func openLoopCases(l *lab, o options) (all []comparison) {
	cold := asked{algorithms[0], manyKeys, 100, 60_000}
	for _, c := range []struct {
		title       string
		redis, asks target
		rate        float64
		stopped     *testbed.Server
	}{
		{"one Redis node", l.redisTarget(), l.proxyTarget(), 10_000, nil},
		{"one Redis node, half of what both reach", l.redisTarget(), l.proxyTarget(), 0, nil},
		{"three Redis nodes", target{fronts: l.trio, nodes: l.trio}, target{fronts: []*testbed.Server{l.onTrio}, proxied: true, nodes: l.trio}, 10_000, nil},
		{"three Redis nodes, one stops", target{fronts: l.trio, nodes: l.trio}, target{fronts: []*testbed.Server{l.onTrio}, proxied: true, nodes: l.trio}, 10_000, l.trio[0]},
	} {
		a, b := l.pair(cold, c.asks, o.keys, 1)
		for i := range a {
			a[i].target, a[i].send, a[i].rate, a[i].stopped = c.redis, paced, c.rate, c.stopped
		}
		b.send, b.rate, b.stopped = paced, c.rate, c.stopped
		all = append(all, comparison{openLoops, "RL.SLIDE, " + c.title, a, b, []*figure{byP50, byP99, byP999}, nil})
	}
	return all
}

// openTrio starts three redis-servers and rlproxy on them, with the default
// configuration: requests for a suspended node are denied by FAIL CLOSED.
func (l *lab) openTrio() error {
	args := []string{l.Binary, "--bind", "127.0.0.1", "--loglevel", "warning"}
	for range 3 {
		s, err := l.Redis(nil)
		if err != nil {
			return err
		}
		l.trio = append(l.trio, s)
		args = append(args, "--backend", "redis://"+s.Address())
	}
	var err error
	l.onTrio, err = l.Start(args...)
	return err
}
