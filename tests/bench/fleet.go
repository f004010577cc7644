package main

import "fmt"

// mostProxies is the size of the largest fleet.
const mostProxies = 16

// fleetCases returns loads in which the same number of clients use 1, 4 and 16 proxies of one node. Equal
// requests are combined only if one proxy gets them at the same time.
func fleetCases(l *lab, o options) (all []comparison) {
	q := algorithms[0]
	for _, c := range []struct {
		title string
		ask   asked
		keys  int
		depth int
	}{
		{"cold keys", asked{q, manyKeys, 100, 60_000}, o.keys, 1},
		{"one hot key with room", asked{q, "hot", trillion, 1000}, 1, 16},
	} {
		for _, n := range []int{1, 4, mostProxies} {
			a, b := l.pair(c.ask, l.proxyTarget(), c.keys, c.depth)
			b.fronts = l.fleet[:n]
			for i := range a {
				a[i].send, a[i].clients = together, 3*mostProxies
			}
			b.send, b.clients = together, 3*mostProxies
			title := fmt.Sprintf("%s, %s, %d proxies", q.command, c.title, n)
			if n == 1 {
				title = fmt.Sprintf("%s, %s, 1 proxy", q.command, c.title)
			}
			all = append(all, comparison{fleets, title, a, b, []*figure{byRate, byNodeCPU}, nil})
		}
	}
	return all
}

// openFleet adds proxies of the node. They are launched when they are first needed, and run until
// closeFleet: idle proxies would take time from other cases.
func (l *lab) openFleet() error {
	for range mostProxies {
		p, err := l.AddRLProxy("--advance", "no", "--backend", "redis://"+l.node.Address())
		if err != nil {
			return err
		}
		l.fleet = append(l.fleet, p)
	}
	return nil
}

// closeFleet stops the proxies that were added.
func (l *lab) closeFleet() {
	for _, p := range l.fleet {
		p.Stop()
	}
	for _, a := range l.away {
		for _, p := range append(a.proxies, a.without) {
			p.Stop()
		}
	}
}
