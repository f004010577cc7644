package main

import "strconv"

// question is one of the two kinds of window that are compared.
type question struct {
	command string // of rlproxy
	script  string // in scripts/, without .lua: what Redis itself is asked
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
	add := func(title string, a, b load, figures ...*figure) {
		all = append(all, comparison{decisions, title, a, b, figures})
	}
	for _, q := range questions {
		// Cold keys: each decision is about a key that has seen one request, or a few.
		cold := asked{q, manyKeys, 100, 60_000}
		// A hot key with room. No log of a real limit has room for a benchmark's rate, so
		// the limit is the largest and the window, on both sides, one second: the sorted
		// set holds what one second admits, and is trimmed as fast as it grows.
		hot := asked{q, "hot", trillion, 1000}
		// A key that denies every request.
		denied := asked{q, "denied", 100, 3_600_000}
		pair := func(ask asked, to target, keys, depth int) (load, load) {
			return load{target: redis, command: ask.direct(l), keys: keys, clients: clients, depth: depth},
				load{target: to, command: ask.proxied(), keys: keys, clients: clients, depth: depth}
		}
		for _, c := range []struct {
			title string
			ask   asked
			keys  int
			depth int
		}{
			{"cold keys", cold, o.keys, 1},
			{"cold keys", cold, o.keys, 16},
			{"cold keys", cold, o.keys, 64},
			{"one hot key with room", hot, 1, 1},
			{"one hot key with room", hot, 1, 16},
			{"one hot key with room", hot, 1, 64},
			{"one denied key", denied, 1, 1},
			{"one denied key", denied, 1, 16},
		} {
			a, b := pair(c.ask, proxy, c.keys, c.depth)
			add(q.command+", "+c.title, a, b, byRate, byNodeCPU)
		}
		a, b := pair(cold, memory, o.keys, 1)
		add(q.command+", embedded engine, cold keys", a, b, byRate)
		a, b = pair(cold, memory, o.keys, 16)
		add(q.command+", embedded engine, cold keys", a, b, byRate)
		a.command = []string{"INCR", manyKeys}
		add(q.command+", embedded engine, against INCR", a, b, byRate)

		all = append(all, l.clusterCase(q, o.keys), l.splitCase(q))

		a, b = pair(cold, proxy, o.keys, 1)
		a.loop, b.loop = true, true
		all = append(all, comparison{latency, q.command + ", cold keys", a, b, []*figure{byP50, byP99}})
	}
	for _, depth := range []int{1, 16, 64} {
		ping := load{target: redis, command: []string{"PING"}, keys: 1, clients: clients, depth: depth}
		hop := ping
		hop.target = proxy
		all = append(all, comparison{ceilings, "PING", ping, hop, []*figure{byRate}})
	}
	return all
}
