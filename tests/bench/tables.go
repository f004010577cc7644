package main

import (
	"fmt"
	"math"
	"strings"
)

// tables returns the results as tables in Markdown.
func (r *report) tables() string {
	var b strings.Builder
	r.throughput(&b, decisions, "Keys that are all alike. Cold keys: each request is about one of 100,000 keys.")
	r.throughput(&b, everyday, "Keys near a limit are asked about at random, for more than the limit admits. If a side is too slow for that "+
		"on this machine, the limit is half of the requests that the slower side makes about keys with room. "+
		"The last columns show how many requests were denied. Skewed keys are a million, of which the "+
		"n-th is asked about in proportion to 1/n (Zipf), at most 100 times a minute. Two windows are 100 a minute and 1,000 an hour. The four "+
		"limits are RL.SLIDE a minute, RL.SLIDE an hour, RL.COUNTER and CL.THROTTLE, in turn.")
	r.openLoops(&b, openLoops, "Requests come at a fixed rate, whether those before them are answered or not. Latency, in us, counts from the time at which a request was meant "+
		"to be sent. A node that stops is suspended for the middle half of each round; what it does not answer then, rlproxy denies by FAIL CLOSED, and "+
		"the direct clients wait for.")
	r.latencies(&b, latency, "The time from request to answer, in us, of a program with one blocking socket while nothing else runs. Other clients take longer themselves.")
	r.throughput(&b, fleets, "As many clients in all, 48, ask one node through one proxy or several. Only equal requests that one proxy has at the same time are "+
		"combined.")
	r.advances(&b)
	r.memory(&b)
	r.splits(&b)
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

// multiple returns figure i as text. It is empty if the case does not have it.
func (r result) multiple(i int) string {
	if i >= len(r.values) {
		return ""
	}
	return r.values[i].String()
}

// throughput writes a table of decisions per second and their CPU time.
func (r *report) throughput(b *strings.Builder, table, about string) {
	rows := r.in(table)
	if len(rows) == 0 {
		return
	}
	columns := []string{
		"case", "-P", "direct by", "direct, /s", "rlproxy, /s", "multiple",
		"direct: node us", "rlproxy: node us", "decisions per node CPU second, multiple", "rlproxy: own us", "calls",
	}
	switch table {
	case everyday:
		columns = append(columns, "direct: denied, %", "rlproxy: denied, %")
	case inMemory:
		columns = append(columns, "calls a second and proxy")
	}
	heading(b, table, about+" The CPU time is per decision, in us. Each multiple is rlproxy's figure over the direct one; where that of node CPU is over 100, rlproxy hardly asked Redis. -P is how many requests a client "+
		"sends together. Calls are those of rlproxy to Redis, for 100 decisions.", columns...)
	for _, row := range rows {
		calls := short(100 * row.bs.calls)
		if row.b.fresh {
			calls = ""
		}
		cells := []string{
			row.title, fmt.Sprint(row.b.depth), row.a.by(), thousands(row.as.Rate), thousands(row.bs.Rate), row.multiple(0),
			short(row.as.node), short(row.bs.node), row.multiple(1), short(row.bs.proxy), calls,
		}
		switch table {
		case everyday:
			cells = append(cells, fmt.Sprintf("%.1f", row.as.denied), fmt.Sprintf("%.1f", row.bs.denied))
		case inMemory:
			cells = append(cells, fmt.Sprintf("%.1f", row.bs.calls*row.bs.Rate/float64(len(row.b.fronts))))
		}
		line(b, cells...)
	}
	b.WriteString("\n")
}

// by returns the script or the command of a direct load.
func (l load) by() string {
	if l.script == "" {
		return l.command[0]
	}
	return l.script + ".lua"
}

// advances writes the tables of hot keys that rlproxy decides in its memory.
func (r *report) advances(b *strings.Builder) {
	r.throughput(b, inMemory, "rlproxy decides hot keys [in its memory](hot-keys.md#advance), and tells the node at most 20 times a second. "+
		"Several proxies have 48 clients in all.")
	r.latencies(b, hotWaiting, "As above, about one hot key with room. A hop between the node and whoever asks it delays what passes, each way.")
	r.openLoops(b, atLimit, "Requests about one key come at a fixed rate. In the middle of a round the limit is reached, and advances are recalled. The latencies, in us, are "+
		"those of the requests that came in the 100 ms before and after the first denial.")
}

func (r *report) openLoops(b *strings.Builder, table, about string) {
	rows := r.in(table)
	if len(rows) == 0 {
		return
	}
	heading(b, table, about,
		"case", "requests, /s", "direct by", "direct: p50", "p99", "p99.9", "longest", "rlproxy: p50", "p99", "p99.9", "longest",
		"multiple of p50", "of p99", "of p99.9", "answered by FAIL, %")
	worst := 0.0
	for _, row := range rows {
		a, p := row.as, row.bs
		line(b, row.title, thousands(row.b.rate), row.a.by(), us(a.P50), us(a.P99), us(a.P999), us(a.Max), us(p.P50), us(p.P99), us(p.P999), us(p.Max),
			row.multiple(0), row.multiple(1), row.multiple(2), short(p.Failed))
		worst = max(worst, a.Late, p.Late)
	}
	fmt.Fprintf(b, "\nThe load generator sent 99 %% of the requests at most %s us late, which is part of the latency of both sides.\n\n", us(worst))
}

func (r *report) memory(b *strings.Builder) {
	if len(r.sizes) == 0 {
		return
	}
	heading(b, footprint, "Bytes a key, for keys of 14 bytes: the growth of `used_memory` of a Redis node, by the smallest script and by rlproxy, and of what the embedded engine counts "+
		"against `maxmemory`. Its [resident memory](peers.md#state-and-accuracy) is larger.",
		"key", "keys", "direct by", "direct", "rlproxy, on a node", "rlproxy, embedded engine")
	for _, s := range r.sizes {
		by, direct := "", ""
		if s.script != "" {
			by, direct = s.script+".lua", thousands(s.direct)
		}
		line(b, s.title, thousands(float64(s.proxied.keys)), by, direct, thousands(s.onNode), thousands(s.embedded))
	}
	b.WriteString("\n")
}

func (r *report) splits(b *strings.Builder) {
	rows := r.in(splitting)
	if len(rows) == 0 {
		return
	}
	heading(b, splitting, "A key that lies on one node, and one that is split, through the same rlproxy. The CPU time is per decision, in us, and calls are for 100 decisions. "+
		"A core carries as many calls a second as the CPU time of one call allows. A split pays from as many calls a second on as the last column says: then its answers come sooner.",
		"case", "-P", "unsplit: nodes us", "rlproxy us", "calls", "a core carries", "split: all nodes, multiple", "the busiest, multiple", "rlproxy, multiple", "calls", "by node, %", "pays from, calls/s")
	for _, row := range rows {
		line(b, row.title, fmt.Sprint(row.b.depth), short(row.as.node), short(row.as.proxy), short(100*row.as.calls), rounded(row.as.carried()),
			row.multiple(0), row.multiple(1), row.multiple(2), short(100*row.bs.calls), fmt.Sprintf("%.0f to %.0f", row.bs.least, row.bs.most),
			rounded(row.values[3].median))
	}
	b.WriteString("\n")
}

func (r *report) latencies(b *strings.Builder, table, about string) {
	rows := r.in(table)
	if len(rows) == 0 {
		return
	}
	heading(b, table, about,
		"case", "direct, p50", "rlproxy, p50", "multiple", "direct, p99", "rlproxy, p99", "multiple")
	for _, row := range rows {
		line(b, row.title, us(row.as.P50), us(row.bs.P50), row.multiple(0), us(row.as.P99), us(row.bs.P99), row.multiple(1))
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
		line(b, row.title, fmt.Sprint(row.b.depth), thousands(row.as.Rate), thousands(row.bs.Rate), row.multiple(0))
	}
	b.WriteString("\n")
}

func (r *report) growth(b *strings.Builder) {
	if len(r.growths) == 0 {
		return
	}
	heading(b, growing, "Through rlproxy. Each step has more work than the one before. It should be at most twice as slow, and take at most twice the node's CPU time; what is more is in bold. "+
		"Steps are measured one after the other, so a machine that slows down meanwhile shows as a step. Measure the case alone, with -only, to tell the two apart.",
		"case", "step", "decisions, /s", "node us", "rlproxy us", "slower than the step before", "node CPU over the step before")
	for _, g := range r.growths {
		for i, s := range g.samples {
			slower, more := "", ""
			if i > 0 {
				slower = growthOf(g.samples[i-1].Rate, s.Rate)
				if s.node > 0 {
					more = growthOf(s.node, g.samples[i-1].node)
				}
			}
			line(b, g.name, g.steps[i].title, thousands(s.Rate), short(s.node), short(s.proxy), slower, more)
		}
	}
	b.WriteString("\n")
	explained := map[string]bool{}
	for _, g := range r.growths {
		if !explained[g.of] {
			fmt.Fprintf(b, "- %s: %s\n", g.of, g.why)
		}
		explained[g.of] = true
	}
	b.WriteString("\n")
}

// growthOf returns the ratio of two figures as text, in bold if it is above 2.
func growthOf(a, b float64) string {
	if a > 2*b {
		return "**" + short(a/b) + "**"
	}
	return short(a / b)
}

// rounded returns a number as text, rounded to three digits, with commas.
func rounded(v float64) string {
	unit := math.Pow(10, max(math.Floor(math.Log10(v))-2, 0))
	return thousands(math.Round(v/unit) * unit)
}

// us returns microseconds as text, with three digits or all digits before the decimal point.
func us(v float64) string {
	if v >= 1000 {
		return thousands(v)
	}
	return short(v)
}

// thousands returns a whole number as text, with commas.
func thousands(v float64) string {
	s := fmt.Sprintf("%.0f", v)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
