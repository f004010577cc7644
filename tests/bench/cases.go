package main

import "strconv"

// question is one of the two kinds of window, as rlproxy is asked and as Redis is.
type question struct {
	command string // rlproxy's
	script  string // ours, of scripts/
}

var questions = []question{{"RL.SLIDE", "log"}, {"RL.COUNTER", "counter"}}

// asked is a question about a key, of a limit in a window.
type asked struct {
	question
	key    string
	limit  int
	window int // ms
}

func (a asked) proxied() []string {
	return []string{a.command, a.key, strconv.Itoa(a.limit), strconv.Itoa(a.window) + "ms"}
}

func (a asked) direct(l *lab) []string {
	return []string{"EVALSHA", l.shas[a.script], "1", a.key, strconv.Itoa(a.limit), strconv.Itoa(a.window)}
}

const (
	manyKeys  = "k:" + variable
	trillion  = 1_000_000_000_000 // the largest limit
	clients   = 50
	decisions = "Decisions" // the tables' titles
	splitting = "Split keys"
	latency   = "One client that waits for each answer"
	ceilings  = "Ceilings"
)

// cases lists what is compared, in the order of the tables.
func cases(l *lab, o options) []comparison {
	redis := target{front: l.node, nodes: []*server{l.node}}
	proxy := target{front: l.proxy, proxy: l.proxy, nodes: []*server{l.node}}
	memory := target{front: l.memory, proxy: l.memory, fresh: true}
	var all []comparison
	add := func(title string, a, b load, figures ...figure) {
		all = append(all, comparison{decisions, title, a, b, figures})
	}
	for _, q := range questions {
		// Cold keys: each decision finds a key that was asked once or a few times.
		cold := asked{q, manyKeys, 100, 60_000}
		// A hot key with room. No log of a real limit has room for a benchmark's rate, so
		// the limit is the largest and the window, on both sides, one second: the sorted
		// set holds what one second admits, and is trimmed as fast as it grows.
		hot := asked{q, "hot", trillion, 1000}
		// A key that is denied all along.
		denied := asked{q, "denied", 100, 3_600_000}
		pair := func(ask asked, to target, keys, depth int) (load, load) {
			return load{target: redis, command: ask.direct(l), keys: keys, clients: clients, depth: depth},
				load{target: to, command: ask.proxied(), keys: keys, clients: clients, depth: depth}
		}
		for _, c := range []struct {
			title     string
			ask       asked
			keys      int
			depth     int
			rate, cpu bound
		}{
			{"cold keys", cold, o.keys, 1, bound{0.8, 1}, bound{1.5, 2.5}},
			{"cold keys", cold, o.keys, 16, bound{1.5, 2}, bound{1.5, 2.5}},
			{"cold keys", cold, o.keys, 64, bound{1.8, 2.2}, bound{1.5, 2.5}},
			{"one hot key with room", hot, 1, 1, bound{0.9, 1.2}, bound{4, 8}},
			{"one hot key with room", hot, 1, 16, bound{4, 8}, bound{20, 50}},
			{"one hot key with room", hot, 1, 64, bound{6, 10}, bound{20, 100}},
			{"one denied key", denied, 1, 1, bound{1, 1.4}, bound{100, 100}},
			{"one denied key", denied, 1, 16, bound{6, 12}, bound{100, 100}},
		} {
			a, b := pair(c.ask, proxy, c.keys, c.depth)
			add(q.command+", "+c.title, a, b, figure{byRate, c.rate}, figure{byNodeCPU, c.cpu})
		}
		a, b := pair(cold, memory, o.keys, 1)
		add(q.command+", embedded engine, cold keys", a, b, figure{byRate, bound{1.2, 1.5}})
		a, b = pair(cold, memory, o.keys, 16)
		add(q.command+", embedded engine, cold keys", a, b, figure{byRate, bound{4.5, 8}})
		a.command = []string{"INCR", manyKeys}
		add(q.command+", embedded engine, against INCR", a, b, figure{byRate, bound{0.4, 0.8}})

		all = append(all, l.clusterCase(q, o.keys), l.splitCase(q))

		a, b = pair(cold, proxy, o.keys, 1)
		a.loop, b.loop = true, true
		all = append(all, comparison{latency, q.command + ", cold keys", a, b,
			[]figure{{byP50, bound{2.5, 1.8}}, {byP99, bound{3, 2}}}})
	}
	for _, depth := range []int{1, 16, 64} {
		ping := load{target: redis, command: []string{"PING"}, keys: 1, clients: clients, depth: depth}
		hop := ping
		hop.target = proxy
		all = append(all, comparison{ceilings, "PING", ping, hop, []figure{{byRate, bound{}}}})
	}
	return all
}
