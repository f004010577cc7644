package main

import (
	"fmt"
	"time"

	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/tests/testbed"
)

// away is a Redis node at a distance, and rlproxies that use it.
type away struct {
	title   string
	node    *testbed.Server
	hop     *faultnet.Proxy // between the node and whoever asks it; nil: it is beside them
	proxies []*testbed.Server
	without *testbed.Server // an rlproxy with advance no
}

// distances are those of the nodes for which one client's wait is measured: of the way there, and of the way back.
var distances = []struct {
	title string
	way   time.Duration
}{{"node beside it", 0}, {"node 1 ms away", time.Millisecond}, {"node 40 ms away", 40 * time.Millisecond}}

// openAdvances starts the nodes of the cases with advances, and adds their proxies. These are launched when they are
// first needed.
func (l *lab) openAdvances() error {
	for i, d := range distances {
		n, err := l.Redis(nil)
		if err != nil {
			return err
		}
		a, address := away{title: d.title, node: n}, n.Address()
		if d.way > 0 {
			if a.hop, err = faultnet.Open(address); err != nil {
				return err
			}
			a.hop.Set(faultnet.Faults{Distance: d.way})
			address = a.hop.Addr
		}
		proxies := 1
		if i == 0 {
			proxies = mostProxies
		}
		for range proxies {
			p, err := l.AddRLProxy("--backend", "redis://"+address, "--advance", "yes")
			if err != nil {
				return err
			}
			a.proxies = append(a.proxies, p)
		}
		if a.without, err = l.AddRLProxy("--backend", "redis://"+address, "--advance", "no"); err != nil {
			return err
		}
		l.away = append(l.away, a)
	}
	return nil
}

// Close ends the servers, and the hops between them.
func (l *lab) Close() {
	l.Testbed.Close()
	for _, a := range l.away {
		if a.hop != nil {
			a.hop.Close()
		}
	}
}

// direct returns the target of clients that ask the node themselves.
func (a *away) direct() target {
	t := target{fronts: []*testbed.Server{a.node}, nodes: []*testbed.Server{a.node}}
	if a.hop != nil {
		t.reached = []string{a.hop.Addr}
	}
	return t
}

// through returns the target of clients of some of its proxies.
func (a *away) through(proxies ...*testbed.Server) target {
	return target{fronts: proxies, proxied: true, nodes: []*testbed.Server{a.node}}
}

// advanceCases returns hot keys that rlproxy decides in its memory.
func advanceCases(l *lab, o options) (all []comparison) {
	near := &l.away[0]
	add := func(table, title string, direct []load, b load, figures ...*figure) {
		for i := range direct {
			direct[i].target = near.direct()
		}
		all = append(all, comparison{table, title, direct, b, figures, nil})
	}
	for _, q := range algorithms {
		for _, depth := range []int{1, 16, 64} {
			a, b := l.pair(asked{q, "hot", trillion, 1000}, near.through(near.proxies[0]), 1, depth)
			add(inMemory, q.command+", one hot key with room", a, b, byRate, byNodeCPU)
		}
	}
	for _, n := range []int{4, mostProxies} {
		a, b := l.pair(asked{algorithms[0], "hot", trillion, 1000}, near.through(near.proxies[:n]...), 1, 16)
		for i := range a {
			a[i].send, a[i].clients = together, 3*mostProxies
		}
		b.send, b.clients = together, 3*mostProxies
		add(inMemory, fmt.Sprintf("RL.SLIDE, one hot key with room, %d proxies", n), a, b, byRate, byNodeCPU)
	}
	return append(append(all, hotWaits(l)...), limitCases(l, o)...)
}

// hotWaits returns one client that waits for each answer about a hot key, with the node near and far.
func hotWaits(l *lab) (all []comparison) {
	for i := range l.away {
		w := &l.away[i]
		for _, side := range []struct {
			title string
			proxy *testbed.Server
		}{{"", w.proxies[0]}, {", advance no", w.without}} {
			a, b := l.pair(asked{algorithms[0], "hot", trillion, 10_000}, w.through(side.proxy), 1, 1)
			for j := range a {
				a[j].target, a[j].send, a[j].trial = w.direct(), waiting, 20
			}
			b.send, b.trial = waiting, 20
			all = append(all, comparison{hotWaiting, w.title + side.title, a, b, []*figure{byP50, byP99}, nil})
		}
	}
	return all
}

// limitCases returns loads that reach the limit of a key halfway through a round, so that advances are recalled.
func limitCases(l *lab, o options) (all []comparison) {
	const rate = 5000
	near := &l.away[0]
	for _, side := range []struct {
		title   string
		proxies []*testbed.Server
	}{{"1 proxy", near.proxies[:1]}, {"3 proxies", near.proxies[:3]}, {"1 proxy, advance no", []*testbed.Server{near.without}}} {
		a, b := l.pair(asked{algorithms[0], "hot", int(rate * o.seconds), 60_000}, near.through(side.proxies...), 1, 1)
		for i := range a {
			a[i].target, a[i].send, a[i].rate, a[i].near, a[i].warm = near.direct(), paced, rate, nearLimitTime, 0
		}
		b.send, b.rate, b.near, b.warm = paced, rate, nearLimitTime, 0
		all = append(all, comparison{atLimit, side.title, a, b, []*figure{byP50, byP99, byP999}, nil})
	}
	return all
}

// nearLimitTime is for how long answers are measured before and after the limit is reached.
const nearLimitTime = 100 * time.Millisecond
