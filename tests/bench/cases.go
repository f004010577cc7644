package main

import (
	"strconv"

	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// algorithm is a command that is compared with scripts.
type algorithm struct {
	command string   // of rlproxy
	scripts []string // the common scripts for the same limit, in testbed/scripts, without .lua
}

var algorithms = []algorithm{{"RL.SLIDE", []string{"log", "list"}}, {"RL.COUNTER", []string{"counter", "strings"}}}

// asked is a request for one unit of a key, with a limit in a window.
type asked struct {
	algorithm
	key    string
	limit  int
	window int // ms
}

func (a asked) proxied() []string {
	return []string{a.command, a.key, strconv.Itoa(a.limit), strconv.Itoa(a.window) + "ms"}
}

// direct returns the command that runs the first script.
func (a asked) direct(l *lab) []string { return a.run(l, a.scripts[0]) }

func (a asked) run(l *lab, script string) []string {
	return l.Eval(script, a.key, strconv.Itoa(a.limit), strconv.Itoa(a.window))
}

// directs returns a load for each script. Everything else is as in the load given.
func (a asked) directs(l *lab, like load) (all []load) {
	for _, script := range a.scripts {
		like.script, like.command = script, a.run(l, script)
		all = append(all, like)
	}
	return all
}

const (
	manyKeys   = "k:" + traffic.Variable
	trillion   = 1_000_000_000_000 // the largest limit
	clients    = 50
	decisions  = "Decisions" // this and the following: the titles of tables
	everyday   = "Everyday loads"
	splitting  = "Split keys"
	latency    = "One client that waits for each answer"
	openLoops  = "A fixed rate"
	fleets     = "Fleets"
	inMemory   = "Advances"
	hotWaiting = "One client that waits, hot key"
	atLimit    = "Where the limit is reached"
	ceilings   = "Ceilings"
	footprint  = "Memory"
	growing    = "Cost as work grows"
)

// The targets of most cases.
func (l *lab) redisTarget() target {
	return target{fronts: []*testbed.Server{l.node}, nodes: []*testbed.Server{l.node}}
}

func (l *lab) proxyTarget() target {
	return target{fronts: []*testbed.Server{l.proxy}, proxied: true, nodes: []*testbed.Server{l.node}}
}

func (l *lab) memoryTarget() target {
	return target{fronts: []*testbed.Server{l.memory}, proxied: true, fresh: true}
}

// pair returns the loads of both sides: the same requests, for the same number of keys.
func (l *lab) pair(ask asked, to target, keys, depth int) (direct []load, proxied load) {
	side := load{target: l.redisTarget(), keys: keys, clients: clients, depth: depth}
	if keys == 1 {
		side.warm = 1
	}
	direct = ask.directs(l, side)
	side.target, side.command = to, ask.proxied()
	return direct, side
}

// cases returns all comparisons, in the order of the tables.
func cases(l *lab, o options) []comparison {
	all := mainCases(l, o)
	all = append(all, everydayCases(l, o)...)
	all = append(all, openLoopCases(l, o)...)
	for _, depth := range []int{1, 16, 64} {
		ping := load{target: l.redisTarget(), command: []string{"PING"}, keys: 1, clients: clients, depth: depth, warm: 1}
		hop := ping
		hop.target = l.proxyTarget()
		all = append(all, comparison{ceilings, "PING", []load{ping}, hop, []*figure{byRate}, nil})
	}
	return append(append(all, fleetCases(l, o)...), advanceCases(l, o)...) // last: idle proxies would disturb other cases
}

// mainCases returns the cases in which all keys are alike: cold, hot or denied.
func mainCases(l *lab, o options) (all []comparison) {
	add := func(title string, a []load, b load, figures ...*figure) {
		all = append(all, comparison{decisions, title, a, b, figures, nil})
	}
	for _, q := range algorithms {
		// Cold keys: each request is for a key that has had one request or a few.
		cold := asked{q, manyKeys, 100, 60_000}
		// A hot key with room. No real limit has room for the rate of a benchmark, so
		// this is the largest limit. The window is one second on both sides: the sorted
		// set holds the admissions of one second, and is trimmed as fast as it grows.
		hot := asked{q, "hot", trillion, 1000}
		// A key that denies every request.
		denied := asked{q, "denied", 100, 3_600_000}
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
			a, b := l.pair(c.ask, l.proxyTarget(), c.keys, c.depth)
			add(q.command+", "+c.title, a, b, byRate, byNodeCPU)
		}
		a, b := l.pair(cold, l.memoryTarget(), o.keys, 1)
		add(q.command+", embedded engine, cold keys", a, b, byRate)
		a, b = l.pair(cold, l.memoryTarget(), o.keys, 16)
		add(q.command+", embedded engine, cold keys", a, b, byRate)
		incr := a[0]
		incr.script, incr.command = "", []string{"INCR", manyKeys}
		add(q.command+", embedded engine, against INCR", []load{incr}, b, byRate)

		all = append(append(all, l.clusterCase(q, o.keys)), l.splitCases(q)...)

		a, b = l.pair(cold, l.proxyTarget(), o.keys, 1)
		for i := range a {
			a[i].send = waiting
		}
		b.send = waiting
		all = append(all, comparison{latency, q.command + ", cold keys", a, b, []*figure{byP50, byP99}, nil})
	}
	return all
}
