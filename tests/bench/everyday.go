package main

import "github.com/rlproxy/rlproxy/tests/traffic"

// everydayCases are loads as applications have them: keys near their limits, keys of
// which some are asked about far more often than others, keys that are asked about in
// several ways, and limits in several windows.
func everydayCases(l *lab, o options) (all []comparison) {
	add := func(title string, a []load, b load) {
		all = append(all, comparison{everyday, title, a, b, []*figure{byRate, byNodeCPU}})
	}
	skew := traffic.NewZipf(o.keys*10, 1)
	for _, q := range questions {
		for _, near := range []struct {
			title               string
			keys, limit, window int
			depths              []int // at which clients ask for about as much as the limits admit
			slides              bool  // RL.SLIDE only: a counter's cost does not depend on the limit
		}{
			{"200 keys near 100 a second", 200, 100, 1000, []int{1, 16}, false},
			{"2,000 keys near 100 a second", 2000, 100, 1000, []int{16}, false},
			{"500 keys near 1,000 in 10 s", 500, 1000, 10_000, []int{1}, true},
		} {
			if near.slides && q.command != "RL.SLIDE" {
				continue
			}
			for _, depth := range near.depths {
				a, b := l.pair(asked{q, manyKeys, near.limit, near.window}, l.proxyTarget(), near.keys, depth)
				// A key is in its usual state when it has been asked about for a window.
				b.warm = float64(near.window) / 1000
				for i := range a {
					a[i].warm = b.warm
				}
				add(q.command+", "+near.title, a, b)
			}
		}
		for _, depth := range []int{1, 16} {
			a, b := l.pair(asked{q, manyKeys, 100, 60_000}, l.proxyTarget(), len(skew), depth)
			for i := range a {
				a[i].skew, a[i].send, a[i].random = skew, together, o.keys/4
			}
			b.skew, b.send, b.random = skew, together, o.keys/4
			add(q.command+", skewed keys", a, b)
		}
		for _, depth := range []int{1, 16} {
			a, b := l.pair(asked{q, manyKeys, 100, 60_000}, l.proxyTarget(), o.keys, depth)
			two := map[string]string{"RL.SLIDE": "lists", "RL.COUNTER": "counters"}[q.command]
			a = a[:1]
			a[0].script, a[0].command = two, l.eval(two, manyKeys, "100", "60000", "1000", "3600000")
			b.command = append(b.command, "1000", "1h")
			add(q.command+", two windows", a, b)
		}
	}
	for _, depth := range []int{1, 16} {
		a, b := l.severalWays(o, depth)
		add("Four questions about each key", a, b)
	}
	return all
}

// severalWays asks about each key by RL.SLIDE a minute and an hour, RL.COUNTER and
// CL.THROTTLE. rlproxy keeps the four states in one record. Scripts have a key for each.
func (l *lab) severalWays(o options, depth int) (direct []load, proxied load) {
	minute := asked{questions[0], manyKeys, 100, 60_000}
	hour := asked{questions[0], manyKeys + ":h", 1000, 3_600_000}
	counter := asked{questions[1], manyKeys + ":c", 100, 60_000}
	direct, proxied = l.pair(minute, l.proxyTarget(), o.keys/10, depth)
	for i, a := range direct {
		direct[i].send = together
		direct[i].also = [][]string{hour.run(l, a.script), counter.direct(l), l.eval("gcra", manyKeys+":t", "99", "100", "60")}
	}
	hour.key, counter.key = manyKeys, manyKeys
	proxied.send = together
	proxied.also = [][]string{hour.proxied(), counter.proxied(), {"CL.THROTTLE", manyKeys, "99", "100", "60"}}
	return direct, proxied
}
