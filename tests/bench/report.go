package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// report has the results of a run.
type report struct {
	machine []string // lines that describe the machine
	busy    float64  // the load average when the run began
	options options
	rows    []result // of comparisons
	growths []grown
	sizes   []size
	took    time.Duration // the duration of the run
}

// write writes benchmarks.md, benchmarks.txt and benchmarks.svg.
func (r *report) write(folder string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(r.page()), 0o644),      // #nosec G306 -- for all to read
		os.WriteFile(filepath.Join(folder, "benchmarks.txt"), []byte(r.commands()), 0o644), // #nosec G306 -- likewise
		os.WriteFile(filepath.Join(folder, "benchmarks.svg"), []byte(r.plot()), 0o644))     // #nosec G306 -- likewise
}

func (r *report) page() string {
	var b strings.Builder
	b.WriteString("# Benchmarks\n\nWritten by `make bench`; do not edit.\n\n")
	r.summary(&b)
	b.WriteString("![Decisions per second that one Redis core carries, with a script and with rlproxy](benchmarks.svg)\n\n")
	if r.busy > 0.5 {
		fmt.Fprintf(&b, "**Other work shared the cores: the load average was %.1f when the run began. Decisions per second are rough\n"+
			"then, as their spreads show; CPU per decision is steadier. Run it again on an idle machine.**\n\n", r.busy)
	}
	b.WriteString(r.tables())
	b.WriteString("## How it was measured\n\n")
	for _, line := range r.machine {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	fmt.Fprintf(&b, "- %d rounds; in each, %g s of load on one side, then on the other, in changing order; %.0f minutes in all\n", r.options.rounds, r.options.seconds, r.took.Minutes())
	b.WriteString(method)
	return b.String()
}

// commands returns the commands of redis-benchmark in the last round.
func (r *report) commands() string {
	var b strings.Builder
	for _, row := range r.rows {
		if row.a.send != benchmark {
			continue
		}
		fmt.Fprintf(&b, "# %s, -P %d\n", row.title, row.b.depth)
		fmt.Fprintf(&b, "redis-benchmark %s\n", strings.Join(row.a.arguments(row.na), " "))
		fmt.Fprintf(&b, "redis-benchmark %s\n", strings.Join(row.b.arguments(row.nb), " "))
	}
	return b.String()
}

// summary writes what a reader who does not know rlproxy should remember, in five
// points.
func (r *report) summary(b *strings.Builder) {
	b.WriteString("- **What this is about.** An application can limit rates by a Lua script that it sends to Redis (`EVALSHA`), or by asking\n" +
		"  rlproxy, which keeps its counts on the same Redis. Here both do the same work on the same machine.\n")
	one, many := r.find(decisions, "RL.SLIDE, cold keys", 1), r.find(decisions, "RL.SLIDE, cold keys", 64)
	if hot := r.find(decisions, "RL.SLIDE, one hot key with room", 64); many != nil && hot != nil {
		fmt.Fprintf(b, "- **What a Redis core carries.** %s decisions a second with the script and %s through rlproxy, if each is about\n"+
			"  another key; %s and %s, if all are about one hot key (RL.SLIDE, 64 requests sent together).\n",
			rounded(many.as.perCore()), rounded(many.bs.perCore()), rounded(hot.as.perCore()), rounded(hot.bs.perCore()))
	}
	if one != nil && many != nil {
		fmt.Fprintf(b, "- **What a decision costs.** CPU, in Redis and rlproxy together: %s us with the script and %s us through rlproxy for one request at a time,\n"+
			"  %s us and %s us for 64 sent together (RL.SLIDE, each about another key).%s\n",
			short(one.as.node), short(one.bs.node+one.bs.proxy), short(many.as.node), short(many.bs.node+many.bs.proxy), r.memoryLine())
	}
	r.whenScriptsAreBetter(b)
	fmt.Fprintf(b, "- **How to repeat it.** `make bench` runs all of it in %.0f minutes and writes this page; `make bench-quick` runs the main table in one\n"+
		"  minute. Both need Go and redis-server, and nothing else that uses the cores.\n\n", r.took.Minutes())
}

// memoryLine returns a sentence about the memory of a key on a node, if that was measured.
func (r *report) memoryLine() string {
	for _, s := range r.sizes {
		if s.title == "RL.SLIDE" {
			return fmt.Sprintf(" Memory: a key with one admission\n  takes %s bytes of Redis with the script and %s through rlproxy.", thousands(s.direct), thousands(s.onNode))
		}
	}
	return ""
}

// scriptsAhead returns in how many cases scripts make more decisions, and in how many of these a client
// sends one request at a time.
func scriptsAhead(rows []result) (cases, ahead, alone int) {
	for _, row := range rows {
		if row.a.script == "" {
			continue // INCR decides nothing
		}
		cases++
		if row.values[0].median < 1 {
			ahead++
			if row.b.depth == 1 {
				alone++
			}
		}
	}
	return cases, ahead, alone
}

// whenScriptsAreBetter writes in how many cases scripts make more decisions, and how long an answer takes.
func (r *report) whenScriptsAreBetter(b *strings.Builder) {
	cases, ahead, alone := scriptsAhead(append(r.in(decisions), r.in(everyday)...))
	waits := r.in(latency)
	if cases == 0 || len(waits) == 0 {
		return
	}
	single := strconv.Itoa(alone)
	if alone == ahead {
		single = "all"
	}
	fmt.Fprintf(b, "- **When a plain script is better.** When Redis has time to spare and latency counts, because rlproxy is one more hop: a lone client waits\n"+
		"  %s us for an answer, and %s us with the script (median). Of the %d cases under Decisions and Everyday loads, the script makes more decisions a second\n"+
		"  in %d, %s of them with one request at a time. All processes share these cores.",
		short(waits[0].bs.P50), short(waits[0].as.P50), cases, ahead, single)
	if cases, ahead, _ := scriptsAhead(r.in(fleets)); cases > 0 {
		fmt.Fprintf(b, " Under Fleets, it does so in %d of %d.", ahead, cases)
	}
	b.WriteString("\n")
}

// find returns a row of a table, or nil.
func (r *report) find(table, title string, depth int) *result {
	for i := range r.rows {
		if row := &r.rows[i]; row.table == table && row.title == title && row.b.depth == depth {
			return row
		}
	}
	return nil
}

const method = `- *Direct* is what is sent to Redis without rlproxy: the scripts in tests/testbed/scripts. RL.SLIDE is compared with a sorted set that is
  trimmed, counted, added to and expired (log.lua) or with a list of the newest admissions (list.lua), RL.COUNTER with a hash of two
  counters (counter.lua) or with a string for each (strings.lua): with the one that makes more decisions in a short run of the same case.
  The scripts return one or two integers, rlproxy returns five.
- rlproxy asks its nodes about every key, with ` + "`advance no`" + `, apart from the tables about advances.
- The load generator, rlproxy and redis-server share the cores. Decisions per second are the load generator's count. The
  CPU time of a node is ` + "`INFO cpu`" + ` after the round less before it, user and system; that of rlproxy is the operating system's count.
- Each round gives one multiple, rlproxy's figure divided by the direct one. The tables show the median of these, then the lowest and the highest. It may
  differ from the ratio of the two medians beside it. Other figures are medians of the rounds. Less is better for latencies only.
- Both sides begin a round alike. The node is flushed, and then gets requests that are not counted: one for every key if there are many keys; as many as
  come in a second for one key, and in a window for keys near a limit; 25,000 for skewed keys. Where the window is 10 s, those for RL.SLIDE are spread evenly, and are a
  tenth more than the limits admit. For one key and for keys near a limit, the side that was measured last in a round is measured first in the next one,
  with the keys that it has. With many keys that are not near a limit, both sides make as many decisions.
- What was denied is, for rlproxy, what it counts itself, and for scripts, how many requests did not write: ` + "`INFO commandstats`" + `.
- Skewed keys, several limits on a key, fleets and fixed rates have a load generator of their own (tests/traffic), the same on both
  sides; the rest is redis-benchmark. It shares the cores, too, and takes more of them than redis-benchmark does.
- The load generator of a fixed rate has 50 connections, and writes each request when its time has come, behind those on the connection that are
  not answered yet. Half of what both reach is half of what the slower side makes when 50 clients wait for each answer.
- Redis Cluster: redis-benchmark --cluster finds each key's node itself; on the other side rlproxy does. Both
  sides are warmed with as many random requests, three for each key.
- The hot key has room because its limit is 10^12. Its window is one second on both sides, so that the sorted set
  holds the admissions of one second and not of a minute, which would be slower still.
- The denied key has limit 100 an hour, and is full before the round begins.
- rlproxy runs with ` + "`fail-policy error`" + `: a decision that a node did not make would end the run. With three nodes at a fixed rate it runs as it is
  configured by default.
- Split keys: the same rlproxy and the same four redis-servers on both sides, with ` + "`hot-key-threshold 0`" + `. One client waits for each answer, so that
  nothing can be combined and each decision is a call of its own; 50 clients are combined.
- ` + "`make instructions`" + ` counts the instructions that a node executes for a decision, under valgrind, as multiples of the
  sorted-set script's. CI runs it and fails when a case takes more than tests/instructions/baseline.txt says.
- The lone client is a program of its own with one blocking socket, the same on both sides.
- [benchmarks.txt](benchmarks.txt) has the commands of the last round.
`
