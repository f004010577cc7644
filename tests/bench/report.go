package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// report is everything that a run came to.
type report struct {
	machine []string
	busy    float64 // load average when the run began
	options options
	rows    []result
	growths []grown
	took    time.Duration
}

// write makes benchmarks.md and benchmarks.svg.
func (r *report) write(folder string) error {
	return errors.Join(
		os.WriteFile(filepath.Join(folder, "benchmarks.md"), []byte(r.page()), 0o644),  // #nosec G306 -- for all to read
		os.WriteFile(filepath.Join(folder, "benchmarks.svg"), []byte(r.plot()), 0o644)) // #nosec G306 -- likewise
}

func (r *report) page() string {
	var b strings.Builder
	b.WriteString(`# Benchmarks

Written by ` + "`make bench`" + `; do not edit. What a decision costs through rlproxy, as a multiple of what it costs
to send a script to Redis without it.

![Multiples of direct EVALSHA, by case](benchmarks.svg)

`)
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

const method = `- Load generator, rlproxy and redis-server share the cores. Decisions per second are the load generator's count;
  CPU of the node is ` + "`INFO cpu`" + ` before and after, user and system; CPU of rlproxy is the system's own count.
- A multiple is the median over the rounds of one side's figure over the other's in the same round, with the
  lowest and the highest round after it. Other figures are medians. Less is better for latencies only.
- Both sides begin a round alike: the node is flushed, and every key of the key space is asked once (many keys) or
  the one key is asked for a second (one key). Many keys: as many decisions on both sides.
- What direct EVALSHA runs stands in tests/bench/scripts: a sorted set with trim, count, add and expire against
  RL.SLIDE, a hash with two counters against RL.COUNTER. They answer two integers, rlproxy five.
- Redis Cluster: redis-benchmark --cluster finds each key's node itself; rlproxy does it for the other side. Both
  sides are warmed by as many random questions, three for each key.
- The hot key has room because its limit is 10^12. Its window is one second on both sides, so that the sorted set
  holds one second's admissions and not a minute's, which would be slower still.
- The denied key has limit 100 an hour, and was full before the round began.
- rlproxy runs with ` + "`fail-policy error`" + `: a decision that a node did not make would end the run.
- Split keys: one client that waits for each answer, so that nothing can be combined and each decision is a script call
  of its own, on both sides; the same rlproxy and the same four redis-servers, ` + "`hot-key-threshold 0`" + `.
- ` + "`make instructions`" + ` counts what a node executes for a decision, under valgrind, as multiples of the sorted-set
  script's; CI runs it and fails when a case takes more than tests/bench/instructions.txt has.
- The closed loop is a client of its own with one blocking socket, the same for both sides.

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

// cells are the multiple, what it should be, and where it stands.
func (r result) cells(i int) []string {
	if i >= len(r.figures) {
		return []string{"", "", ""}
	}
	f := r.figures[i]
	return []string{r.values[i].String(), f.String(), f.verdict(r.values[i].median)}
}

func (r *report) decisions(b *strings.Builder) {
	rows := r.in(decisions)
	if len(rows) == 0 {
		return
	}
	heading(b, decisions, "Decisions per second, and CPU of the Redis node and of rlproxy per decision. Columns with floor / goal are multiples of direct.",
		"case", "-P", "direct, /s", "rlproxy, /s", "multiple", "floor / goal", "",
		"direct, node us", "rlproxy, node us", "decisions per node CPU second", "floor / goal", "", "rlproxy us")
	for _, row := range rows {
		cells := []string{row.title, fmt.Sprint(row.b.depth), thousands(row.as.rate), thousands(row.bs.rate)}
		cells = append(cells, row.cells(0)...)
		cells = append(cells, short(row.as.node), short(row.bs.node))
		cells = append(cells, row.cells(1)...)
		line(b, append(cells, short(row.bs.proxy))...)
	}
	b.WriteString("\n")
}

func (r *report) splits(b *strings.Builder) {
	rows := r.in(splitting)
	if len(rows) == 0 {
		return
	}
	heading(b, splitting, "CPU of redis-servers per decision through rlproxy, in us: a key that stands on one, and one that is split. Less is better.",
		"case", "unsplit", "split, all nodes", "multiple", "floor / goal", "", "split, the busiest node", "multiple", "floor / goal", "", "script calls by node, %")
	for _, row := range rows {
		cells := append([]string{row.title, short(row.as.node), short(row.bs.node)}, row.cells(0)...)
		cells = append(append(cells, short(row.bs.busiest)), row.cells(1)...)
		line(b, append(cells, fmt.Sprintf("%.0f to %.0f", row.bs.least, row.bs.most))...)
	}
	b.WriteString("\n")
}

func (r *report) latencies(b *strings.Builder) {
	rows := r.in(latency)
	if len(rows) == 0 {
		return
	}
	heading(b, latency, "Microseconds from question to answer.",
		"case", "direct p50", "rlproxy p50", "multiple", "floor / goal", "", "direct p99", "rlproxy p99", "multiple", "floor / goal", "")
	for _, row := range rows {
		cells := append([]string{row.title, short(row.as.p50), short(row.bs.p50)}, row.cells(0)...)
		line(b, append(append(cells, short(row.as.p99), short(row.bs.p99)), row.cells(1)...)...)
	}
	b.WriteString("\n")
}

func (r *report) ceilings(b *strings.Builder) {
	rows := r.in(ceilings)
	if len(rows) == 0 {
		return
	}
	heading(b, ceilings, "What the load generator and a server that has nothing to do reach here, and what the hop alone costs.",
		"command", "-P", "redis-server, /s", "rlproxy, /s", "multiple")
	for _, row := range rows {
		line(b, row.title, fmt.Sprint(row.b.depth), thousands(row.as.rate), thousands(row.bs.rate), row.values[0].String())
	}
	b.WriteString("\n")
}

func (r *report) growth(b *strings.Builder) {
	if len(r.growths) == 0 {
		return
	}
	heading(b, "Cost as work grows", "Through rlproxy. No step should be more than 2 times slower, or cost the node 2 times the CPU, than the one before. Steps are measured one after the other: a machine that slows down meanwhile shows as a step, and the case alone, with -only, tells.",
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
	said := map[string]bool{}
	for _, g := range r.growths {
		if !said[g.of] {
			fmt.Fprintf(b, "- %s: %s\n", g.of, g.why)
		}
		said[g.of] = true
	}
	b.WriteString("\n")
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
