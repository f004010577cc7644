package main

import (
	"fmt"
	"math"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// everydayCases returns loads as applications have them: keys near their limits, skewed
// keys, keys with several kinds of limits, and limits in several windows.
func everydayCases(l *lab, o options) (all []comparison) {
	add := func(title string, a []load, b load) {
		all = append(all, comparison{table: everyday, title: title, direct: a, b: b, figures: []*figure{byRate, byNodeCPU}})
	}
	skew := traffic.NewZipf(o.keys*10, 1)
	for _, q := range algorithms {
		for _, near := range []nearLimit{
			{200, 100, 1000, "%s keys near %s a second"},
			{2000, 100, 1000, "%s keys near %s a second"},
			{500, 1000, 10_000, "%s keys near %s in 10 s"},
		} {
			for _, depth := range []int{1, 16} {
				c := near.comparison(l, q, depth)
				c.near = func(rate float64) comparison { return near.within(rate).comparison(l, q, depth) }
				all = append(all, c)
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
			a[0].script, a[0].command = two, l.Eval(two, manyKeys, "100", "60000", "1000", "3600000")
			b.command = append(b.command, "1000", "1h")
			add(q.command+", two windows", a, b)
		}
	}
	for _, depth := range []int{1, 16} {
		a, b := l.severalWays(o, depth)
		add("Four limits on each key", a, b)
	}
	return all
}

// nearLimit is a load of keys with more requests than their limit admits.
type nearLimit struct {
	keys, limit int
	window      int    // ms
	title       string // a format for the number of keys and the limit
}

// within returns the load for sides that make at least rate requests per second. If the limit is too high for
// that rate, it becomes half of the requests for a key, with two digits: half, because a full log
// costs more than one with room, and machines slow down.
func (n nearLimit) within(rate float64) nearLimit {
	reached := 0.5 * rate * float64(n.window) / 1000 / float64(n.keys)
	unit := math.Pow(10, max(math.Floor(math.Log10(reached))-1, 0))
	n.limit = min(n.limit, max(int(math.Floor(reached/unit)*unit), 1))
	return n
}

func (n nearLimit) comparison(l *lab, q algorithm, depth int) comparison {
	a, b := l.pair(asked{q, manyKeys, n.limit, n.window}, l.proxyTarget(), n.keys, depth)
	// A key is in its usual state once it has had requests for a whole window. In a long window, the requests for a log are
	// spread evenly; otherwise a round would find all of its requests admitted, or all denied. A tenth more
	// requests than the limit fill every log. Counters do not store times, so they are filled as fast as possible.
	b.warm = float64(n.window) / 1000
	if b.warm > 1 && q.command == "RL.SLIDE" {
		b.even = int(1.1 * float64(n.keys*n.limit) / b.warm)
	}
	for i := range a {
		a[i].warm, a[i].even = b.warm, b.even
	}
	title := q.command + ", " + fmt.Sprintf(n.title, thousands(float64(n.keys)), thousands(float64(n.limit)))
	return comparison{table: everyday, title: title, direct: a, b: b, figures: []*figure{byRate, byNodeCPU}}
}

// severalWays returns loads with four limits on each key: RL.SLIDE with a minute and with an hour, RL.COUNTER
// and CL.THROTTLE. rlproxy stores the four states in one record. Each script has a key of its own.
func (l *lab) severalWays(o options, depth int) (direct []load, proxied load) {
	minute := asked{algorithms[0], manyKeys, 100, 60_000}
	hour := asked{algorithms[0], manyKeys + ":h", 1000, 3_600_000}
	counter := asked{algorithms[1], manyKeys + ":c", 100, 60_000}
	direct, proxied = l.pair(minute, l.proxyTarget(), o.keys/10, depth)
	for i, a := range direct {
		direct[i].send = together
		direct[i].also = [][]string{hour.run(l, a.script), counter.direct(l), l.Eval("gcra", manyKeys+":t", "99", "100", "60")}
	}
	hour.key, counter.key = manyKeys, manyKeys
	proxied.send = together
	proxied.also = [][]string{hour.proxied(), counter.proxied(), {"CL.THROTTLE", manyKeys, "99", "100", "60"}}
	return direct, proxied
}
