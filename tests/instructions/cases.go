package main

import (
	"fmt"
	"slices"

	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
)

// counted is a case: commands about a number of keys, in pipelines. These have 16 requests of one window, or 8 dearer
// ones: rlproxy divides longer pipelines if a server takes long, as it does under valgrind on a slow machine.
type counted struct {
	name     string
	commands [][]string // one for each pipeline, in turn
	keys     int        // the keys, whose numbers replace the variable in commands
	depth    int        // the requests of a pipeline
	together bool       // a request is all commands in a row, about one key, and they count as one decision
	direct   bool       // commands go to the node itself
	options  []string   // of rlproxy
	split    string     // "home" or "shard": which of the two nodes of split keys is counted; empty: keys are not split

	before int      // pipelines that fill the keys first, and are not counted
	setup  []string // the command of those pipelines; nil: commands
}

func (c counted) label() string { return fmt.Sprintf("%s/P%d", c.name, c.depth) }

// Words of commands that are replaced in each request.
const (
	// unique becomes an id that no other request has.
	unique = "unique"
	// costs becomes 1 for all keys, then 2 for all keys, and so on in turn. rlproxy remembers a denial only for requests
	// of its cost, so the node is asked each time.
	costs = "costs"
)

// key is the key of most commands.
const key = "k:" + traffic.Variable

// one returns the commands of a case that has only one.
func one(words ...string) [][]string { return [][]string{words} }

// unit returns the case of which all others are multiples: the sorted-set script, on logs that are short.
func unit(bed *testbed.Testbed) counted {
	return counted{commands: one(bed.Eval("log", key, "1000", "3600000")...), keys: 100, depth: 16, direct: true}
}

// cases returns all cases.
func cases(bed *testbed.Testbed) []counted {
	return slices.Concat(singleCases(), idCases(), holdCases(), longLogCases(bed), stateCases(), splitCases())
}

// singleCases ask for one limit of keys with few admissions.
func singleCases() (all []counted) {
	for _, depth := range []int{1, 16} {
		for _, name := range []string{"RL.SLIDE", "RL.COUNTER", "RL.FIXED"} {
			all = append(all, counted{name: name, commands: one(name, key, "1000", "1h"), keys: 100, depth: depth})
		}
	}
	return append(all,
		counted{name: "RL.COUNTER BUCKETS 10", commands: one("RL.COUNTER", key, "1000", "1h", "BUCKETS", "10"), keys: 100, depth: 16},
		counted{name: "RL.FIXED day", commands: one("RL.FIXED", key, "1000000", "day", "TZ", "Europe/Berlin"), keys: 100, depth: 16},
		counted{name: "CL.THROTTLE", commands: one("CL.THROTTLE", key, "1000", "1000", "3600"), keys: 100, depth: 16},
		counted{name: "RL.SLIDE one key", commands: one("RL.SLIDE", "hot", "1000000", "1h"), keys: 1, depth: 16})
}

// reserve is an RL.RESERVE of a limit of so many units a day. In the log of a day there is an entry for each 1.3 s, so it stays
// short however busy the machine is.
func reserve(limit, cost string, options ...string) []string {
	return append([]string{"RL.RESERVE", key, limit, "24h", "COST", cost, "ID", unique, "TTL", "10m"}, options...)
}

// settle is the RL.SETTLE of a reservation of the same request.
var settle = []string{"RL.SETTLE", key, unique, "3"}

// held holds units by a policy of an algorithm, of which there are so many that a request leaves a rate as low as reserve's.
func held(name, algorithm string) counted {
	return counted{name: name, commands: [][]string{{"RL.HOLD", "p", key, "COST", "5", "ID", unique, "TTL", "10m"}, {"RL.SETTLE", "p:" + key, unique, "3"}},
		keys: 100, depth: 1, together: true, options: []string{"--policy", "p", algorithm, "1000000", "24h"}}
}

// idCases make requests with ids.
func idCases() (all []counted) {
	pair := func(name string, first, second []string, depth int) counted {
		return counted{name: name, commands: [][]string{first, second}, keys: 100, depth: depth, together: true}
	}
	for _, depth := range []int{1, 16} {
		all = append(all, counted{name: "RL.SLIDE ONCE", commands: one("RL.SLIDE", key, "1000", "1h", "ONCE", unique), keys: 100, depth: depth})
	}
	scarce := []string{"RL.SLIDE", key, "1", "5ms"} // each time there is room for one
	return append(all,
		pair("RL.SLIDE admitted and denied", scarce, scarce, 1),
		pair("RL.SLIDE admitted and BLOCK that waits", scarce, append(scarce[:4:4], "BLOCK", "60000"), 1),
		pair("RL.RESERVE and RL.SETTLE", reserve("1000000", "5"), settle, 1),
		pair("RL.RESERVE and RL.SETTLE", reserve("1000000", "5"), settle, 8),
		held("RL.HOLD SLIDE and RL.SETTLE", "SLIDE"), held("RL.HOLD FIXED and RL.SETTLE", "FIXED"),
		held("RL.HOLD COUNTER and RL.SETTLE", "COUNTER"),
		pair("RL.RESERVE LAPSE RELEASE and RL.SETTLE", reserve("1000000", "5", "LAPSE", "RELEASE"), settle, 1),
		pair("RL.ACQUIRE and RL.RELEASE", []string{"RL.ACQUIRE", key, "1000", "ID", unique, "TTL", "10m"}, []string{"RL.RELEASE", key, unique}, 1))
}

// holdCases are about keys of which units are held already, or that have a long log beside what is held.
func holdCases() (all []counted) {
	for _, held := range []int{16, 1008, 16_000} {
		all = append(all, counted{name: fmt.Sprintf("RL.RESERVE and RL.SETTLE beside %d", held), commands: [][]string{reserve("1000000", "5"), settle},
			keys: 1, depth: 1, together: true, setup: reserve("1000000", "5"), before: held})
	}
	const keys = 48
	slide := []string{"RL.SLIDE", key, "60000", "24h"}
	for _, depth := range []int{1, 8} {
		all = append(all, counted{name: "RL.RESERVE and RL.SETTLE, log of 100", commands: [][]string{reserve("60000", "5"), settle}, keys: keys, depth: depth,
			together: true, setup: slide, before: keys * 104 / depth})
	}
	for _, depth := range []int{1, 16} {
		all = append(all,
			counted{name: "RL.SLIDE beside a hold", commands: one(slide...), keys: keys, depth: depth, setup: reserve("60000", "5"), before: keys * 8 / depth},
			counted{name: "RL.RESERVE denied, log of 100", commands: one(reserve("100", "5")...), keys: keys, depth: depth,
				setup: []string{"RL.SLIDE", key, "100", "24h"}, before: keys * 104 / depth},
			counted{name: "RL.RESERVE denied beside holds", commands: one(reserve("100", "5")...), keys: keys, depth: depth,
				setup: reserve("100", "50"), before: keys * 3 / depth})
	}
	return all
}

// longLogCases are about keys whose logs have 100 entries, admitted and denied.
func longLogCases(bed *testbed.Testbed) (all []counted) {
	// After 92 admissions, a ring of 90 slots has grown, and does not grow again with one request a pipeline.
	const keys, entries, full = 48, 92, 104
	for _, depth := range []int{1, 16} {
		long := func(name string, entries int, direct bool, setup []string, words ...string) counted {
			return counted{name: name, direct: direct, setup: setup, commands: one(words...), keys: keys, depth: depth, before: keys * entries / depth}
		}
		all = append(all,
			long("sorted set of 100", entries, true, nil, bed.Eval("log", key, "1000", "3600000")...),
			long("RL.SLIDE log of 100", entries, false, nil, "RL.SLIDE", key, "1000", "1h"),
			long("sorted set of 100 denied", full, true, nil, bed.Eval("log", key, "100", "3600000")...),
			long("RL.SLIDE log of 100 denied", full, false, []string{"RL.SLIDE", key, "100", "1h"}, "RL.SLIDE", key, "100", "1h", "COST", costs))
	}
	return all
}

// stateCases are about keys whose record has several states.
func stateCases() []counted {
	return []counted{
		{name: "RL.SLIDE 2 windows", commands: one("RL.SLIDE", key, "1000", "1h", "2000", "2h"), keys: 100, depth: 8},
		{name: "RL.COUNTER 2 windows", commands: one("RL.COUNTER", key, "1000", "1h", "2000", "2h"), keys: 100, depth: 8},
		{name: "RL.SLIDE 2 windows apart", keys: 100, depth: 16, commands: [][]string{
			{"RL.SLIDE", key, "1000", "1h"}, {"RL.SLIDE", key, "2000", "2h"}}},
		{name: "RL.COUNTER beside RL.SLIDE", keys: 100, depth: 16, before: 7, setup: []string{"RL.SLIDE", key, "1000", "1h"},
			commands: one("RL.COUNTER", key, "1000", "1h")},
	}
}

// splitCases are about split keys. An ID that chooses the node is added to the commands.
func splitCases() []counted {
	words := one("RL.SLIDE", key, "1000000", "1h", "SHARDS", "2", "ID")
	return []counted{
		{name: "RL.SLIDE at the home", commands: words, keys: 16, depth: 8, before: 10, split: "home"},
		{name: "RL.SLIDE at a shard", commands: words, keys: 16, depth: 8, before: 10, split: "shard"},
	}
}
