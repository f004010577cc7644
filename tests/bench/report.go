package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is what a run has measured.
type report struct {
	machine []string
	busy    float64 // load average when the run began
	options options
	rows    []result
	growths []grown
	took    time.Duration
}

// write writes benchmarks.md and benchmarks.svg.
func (r *report) write(folder string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(r.page()), 0o644),  // #nosec G306 -- for all to read
		os.WriteFile(filepath.Join(folder, "benchmarks.svg"), []byte(r.plot()), 0o644)) // #nosec G306 -- likewise
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
	b.WriteString("\n```\n")
	for _, row := range r.rows {
		if row.a.loop {
			continue
		}
		fmt.Fprintf(&b, "# %s, -P %d\n", row.title, row.b.depth)
		fmt.Fprintf(&b, "redis-benchmark %s\n", strings.Join(row.a.arguments(row.na), " "))
		fmt.Fprintf(&b, "redis-benchmark %s\n", strings.Join(row.b.arguments(row.nb), " "))
	}
	b.WriteString("```\n")
	return b.String()
}

// summary is what a reader who knows nothing of rlproxy should take away.
func (r *report) summary(b *strings.Builder) {
	b.WriteString("- **What this is about.** An application can limit rates by a Lua script that it sends to Redis (`EVALSHA`), or by asking\n" +
		"  rlproxy, which keeps its counts on the same Redis. Here both do the same work on the same machine.\n")
	many, hot := r.find("RL.SLIDE, cold keys", 64), r.find("RL.SLIDE, one hot key with room", 64)
	if many != nil && hot != nil {
		fmt.Fprintf(b, "- **What a Redis core carries.** %s decisions a second with the script and %s through rlproxy, if each is about\n"+
			"  another key; %s and %s, if all are about one hot key (RL.SLIDE, 64 requests sent together).\n",
			rounded(many.as.perCore()), rounded(many.bs.perCore()), rounded(hot.as.perCore()), rounded(hot.bs.perCore()))
		fmt.Fprintf(b, "- **What a decision costs.** %s us of CPU with the script, all of it in Redis; through rlproxy %s us in Redis and %s us in\n"+
			"  rlproxy, which need not run beside Redis (RL.SLIDE, each request about another key, 64 sent together).\n",
			short(many.as.node), short(many.bs.node), short(many.bs.proxy))
	}
	alone := r.find("RL.SLIDE, cold keys", 1)
	if waits := r.in(latency); alone != nil && len(waits) > 0 {
		fmt.Fprintf(b, "- **When a plain script is better.** When clients send one request at a time and Redis has time to spare. rlproxy is one more\n"+
			"  hop: a lone client waits %s us for an answer instead of %s us (median), and a decision takes %s us of CPU in both processes\n"+
			"  together instead of %s us.\n", short(waits[0].bs.p50), short(waits[0].as.p50), short(alone.bs.node+alone.bs.proxy), short(alone.as.node))
	}
	fmt.Fprintf(b, "- **How to repeat it.** `make bench` runs all of it in %.0f minutes and writes this page; `make bench-quick` runs the main table in one\n"+
		"  minute. Both need Go and redis-server, and nothing else that uses the cores.\n\n", r.took.Minutes())
}

// find returns a row of the table of decisions, or nil.
func (r *report) find(title string, depth int) *result {
	for i := range r.rows {
		if row := &r.rows[i]; row.table == decisions && row.title == title && row.b.depth == depth {
			return row
		}
	}
	return nil
}

const method = `- *Direct* is what is sent to Redis without rlproxy: the scripts in tests/bench/scripts. RL.SLIDE is compared with a
  sorted set that is trimmed, counted, added to and expired, RL.COUNTER with a hash of two counters. The scripts
  return two integers, rlproxy returns five.
- The load generator, rlproxy and redis-server share the cores. Decisions per second are the load generator's count. The
  CPU time of a node is ` + "`INFO cpu`" + ` after the round less before it, user and system; that of rlproxy is the operating system's count.
- A multiple is the median over the rounds of one side's figure over the other's in the same round; the lowest and
  the highest round follow it in parentheses. Other figures are medians. Less is better for latencies only.
- Both sides begin a round alike. The node is flushed. Then every key of the key space gets one request (many keys), or
  the one key gets requests for a second (one key). With many keys, both sides make as many decisions.
- Redis Cluster: redis-benchmark --cluster finds each key's node itself; on the other side rlproxy does. Both
  sides are warmed with as many random requests, three for each key.
- The hot key has room because its limit is 10^12. Its window is one second on both sides, so that the sorted set
  holds the admissions of one second and not of a minute, which would be slower still.
- The denied key has limit 100 an hour, and is full before the round begins.
- rlproxy runs with ` + "`fail-policy error`" + `: a decision that a node did not make would end the run.
- Split keys: one client waits for each answer, so that nothing can be combined and each decision is a call of its own
  on both sides. Both use the same rlproxy and the same four redis-servers, with ` + "`hot-key-threshold 0`" + `.
- ` + "`make instructions`" + ` counts the instructions that a node executes for a decision, under valgrind, as multiples of the
  sorted-set script's. CI runs it and fails when a case takes more than tests/bench/instructions.txt says.
- The lone client is a program of its own with one blocking socket, the same on both sides.

The commands of the last round:
`

// tables are the figures in Markdown.
func (r *report) tables() string {
	var b strings.Builder
	r.decisions(&b)
	r.splits(&b)
	r.latencies(&b)
	r.ceilings(&b)
	r.growth(&b)
	return b.String()
}

func (r *report) in(table string) (rows []result) {
	for _, row := range r.rows {
		if row.table == table {
			rows = append(rows, row)
		}
	}
	return rows
}

func heading(b *strings.Builder, title, about string, columns ...string) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n", title, about)
	line(b, columns...)
	line(b, strings.Split(strings.Repeat("---,", len(columns)-1)+"---", ",")...)
}

func line(b *strings.Builder, cells ...string) {
	fmt.Fprintf(b, "| %s |\n", strings.Join(cells, " | "))
}

// multiple returns figure i as text; there is none for an engine without a node.
func (r result) multiple(i int) string {
	if i >= len(r.values) {
		return ""
	}
	return r.values[i].String()
}

func (r *report) decisions(b *strings.Builder) {
	rows := r.in(decisions)
	if len(rows) == 0 {
		return
	}
	heading(b, decisions, "The CPU time is per decision, in us. Each multiple is rlproxy's figure over the direct one. -P is how many requests a client "+
		"sends together; 50 clients do. Cold keys: each request is about one of 100,000 keys.",
		"case", "-P", "direct, /s", "rlproxy, /s", "multiple",
		"direct: node us", "rlproxy: node us", "decisions per node CPU second, multiple", "rlproxy: own us")
	for _, row := range rows {
		line(b, row.title, fmt.Sprint(row.b.depth), thousands(row.as.rate), thousands(row.bs.rate), row.multiple(0),
			short(row.as.node), short(row.bs.node), row.multiple(1), short(row.bs.proxy))
	}
	b.WriteString("\n")
}

func (r *report) splits(b *strings.Builder) {
	rows := r.in(splitting)
	if len(rows) == 0 {
		return
	}
	heading(b, splitting, "The CPU time of redis-servers per decision through rlproxy, in us: for a key that lies on one node, and for one that is split. Less is better.",
		"case", "unsplit", "split, all nodes", "multiple", "split, the busiest node", "multiple", "calls by node, %")
	for _, row := range rows {
		line(b, row.title, short(row.as.node), short(row.bs.node), row.multiple(0), short(row.bs.busiest), row.multiple(1),
			fmt.Sprintf("%.0f to %.0f", row.bs.least, row.bs.most))
	}
	b.WriteString("\n")
}

func (r *report) latencies(b *strings.Builder) {
	rows := r.in(latency)
	if len(rows) == 0 {
		return
	}
	heading(b, latency, "The time from request to answer, in us.",
		"case", "direct, p50", "rlproxy, p50", "multiple", "direct, p99", "rlproxy, p99", "multiple")
	for _, row := range rows {
		line(b, row.title, short(row.as.p50), short(row.bs.p50), row.multiple(0), short(row.as.p99), short(row.bs.p99), row.multiple(1))
	}
	b.WriteString("\n")
}

func (r *report) ceilings(b *strings.Builder) {
	rows := r.in(ceilings)
	if len(rows) == 0 {
		return
	}
	heading(b, ceilings, "What the load generator reaches here with a server that has nothing to do, and what the hop alone costs.",
		"command", "-P", "redis-server, /s", "rlproxy, /s", "multiple")
	for _, row := range rows {
		line(b, row.title, fmt.Sprint(row.b.depth), thousands(row.as.rate), thousands(row.bs.rate), row.multiple(0))
	}
	b.WriteString("\n")
}

func (r *report) growth(b *strings.Builder) {
	if len(r.growths) == 0 {
		return
	}
	heading(b, "Cost as work grows", "Through rlproxy. Each step has more work than the one before; none should be more than twice as slow, or take more than twice the node's CPU time. "+
		"Steps are measured one after the other, so a machine that slows down meanwhile shows as a step. Measure the case alone, with -only, to tell the two apart.",
		"case", "step", "decisions, /s", "node us", "rlproxy us", "slower than the step before", "node CPU over the step before")
	for _, g := range r.growths {
		for i, s := range g.samples {
			slower, more := "", ""
			if i > 0 {
				slower = short(g.samples[i-1].rate / s.rate)
				if s.node > 0 {
					more = short(s.node / g.samples[i-1].node)
				}
			}
			line(b, g.name, g.steps[i].title, thousands(s.rate), short(s.node), short(s.proxy), slower, more)
		}
	}
	b.WriteString("\n")
	told := map[string]bool{}
	for _, g := range r.growths {
		if !told[g.of] {
			fmt.Fprintf(b, "- %s: %s\n", g.of, g.why)
		}
		told[g.of] = true
	}
	b.WriteString("\n")
}

// rounded writes a whole number with commas, of which three digits count.
func rounded(v float64) string {
	unit := math.Pow(10, max(math.Floor(math.Log10(v))-2, 0))
	return thousands(math.Round(v/unit) * unit)
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
