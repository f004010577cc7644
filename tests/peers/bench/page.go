package main

import (
	"context"
	"fmt"
	"math"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rlproxy/rlproxy/tests/peers"
)

// page is docs/peers.md.
type page struct {
	rows    []*row
	machine []string // a line each
	long    time.Duration
	rounds  int
	about   map[string]peers.About
	version map[string]string
}

func newPage(ctx context.Context, rows []*row, long time.Duration, rounds int) (*page, error) {
	p := &page{rows: rows, long: long, rounds: rounds, about: map[string]peers.About{}, version: map[string]string{}}
	for _, r := range rows {
		var err error
		if p.about[r.name], p.version[r.name], err = peers.Describe(r.name); err != nil {
			return nil, err
		}
	}
	for _, command := range []string{
		"sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1", "nproc | sed 's/$/ cores/'", "uname -sr", "redis-server --version | cut -d' ' -f1-3",
		"for s in tests/.cache/servers/*/redis-server; do $s --version | cut -d' ' -f1-3; done | paste -sd ';' | sed 's/;/; /g'",
		"go version", "python3 --version", "node --version | sed 's/^/Node /'", "java -version 2>&1 | head -1", "cargo --version",
	} {
		out, err := exec.CommandContext(ctx, "sh", "-c", command).Output() // #nosec G204 -- our own
		if err == nil {                                                    // else the program is not needed for the rows that there are
			p.machine = append(p.machine, strings.TrimSpace(string(out)))
		}
	}
	return p, nil
}

// column is one figure of the rows.
type column struct {
	title string
	text  func(r *row) string
	value func(r *row) float64 // NaN: it has none
	more  bool                 // whether more is better
}

func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for at := len(s) - 3; at > 0; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

func orNone(v float64) float64 {
	if v == 0 {
		return math.NaN()
	}
	return v
}

func figure(title string, more bool, value func(r *row) float64) column {
	return column{title, func(r *row) string { return number(value(r)) }, value, more}
}

// speed and state are the columns of the two tables, after the name.
var (
	speed = []column{
		figure("decisions/s", true, func(r *row) float64 { return r.single.rate }),
		figure("-P 16", true, func(r *row) float64 { return orNone(r.deep.rate) }),
		figure("p50 us", false, func(r *row) float64 { return us(r.single.P50) }),
		figure("p99 us", false, func(r *row) float64 { return us(r.single.P99) }),
		figure("CPU us", false, func(r *row) float64 { return r.single.all() }),
		figure("Redis", false, func(r *row) float64 { return orNone(r.single.each(r.single.Store)) }),
		figure("server", false, func(r *row) float64 { return orNone(r.single.each(r.single.Server)) }),
		figure("client", false, func(r *row) float64 { return r.single.each(r.single.Client) }),
	}
	state = []column{
		figure("bytes a key", false, func(r *row) float64 { return r.first }),
		figure("at its limit", false, func(r *row) float64 { return r.full }),
		{"worst window", func(r *row) string { return fmt.Sprintf("%.2f", r.worst) }, func(r *row) float64 { return r.worst }, false},
	}
	stop = []column{
		{title: "Redis hangs", text: func(r *row) string { return r.hangs.text() }},
		{title: "Redis is gone", text: func(r *row) string { return r.gone.text() }},
	}
)

func (s stopped) text() string {
	if !s.known {
		return "-"
	}
	if s.first >= patience {
		return fmt.Sprintf("nothing in %.0f s", patience.Seconds())
	}
	second := "then " + brief(s.second)
	if s.second >= patience {
		second = fmt.Sprintf("then nothing in %.0f s", patience.Seconds())
	}
	return s.answer + " after " + brief(s.first) + ", " + second
}

func brief(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1e3)
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// tables are the figures as text for a terminal.
func (p *page) tables() string {
	var b strings.Builder
	for _, columns := range [][]column{speed, slices.Concat(state, stop)} {
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		titles := []string{"limiter"}
		for _, c := range columns {
			titles = append(titles, c.title)
		}
		_, _ = fmt.Fprintln(w, strings.Join(titles, "\t")) // a strings.Builder never fails
		for _, r := range p.rows {
			_, _ = fmt.Fprintln(w, strings.Join(r.cells(columns), "\t"))
		}
		_ = w.Flush()
		b.WriteString("\n")
	}
	return b.String()
}

func (r *row) cells(columns []column) []string {
	cells := []string{r.name}
	for _, c := range columns {
		cells = append(cells, c.text(r))
	}
	return cells
}

func (p *page) table(b *strings.Builder, columns []column, extra string) {
	b.WriteString("| limiter |" + extra)
	for _, c := range columns {
		b.WriteString(" " + c.title + " |")
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", strings.Count(extra, "|")))
	for _, c := range columns {
		if c.value == nil {
			b.WriteString("---|")
		} else {
			b.WriteString("--:|")
		}
	}
	b.WriteString("\n")
	for _, r := range p.rows {
		cells := r.cells(columns)
		if extra != "" {
			cells = slices.Insert(cells, 1, p.about[r.name].Algorithm)
		}
		b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
	}
	b.WriteString("\n")
}

func (p *page) text() string {
	var b strings.Builder
	b.WriteString(`# rlproxy beside other rate limiters

<!-- Written by "make bench-peers". -->

This page compares rlproxy with what people use instead: in one run, on one machine, with the same Redis and the same load. Read
each figure as a ratio to another of the same column, since both come from the same busy machine. [benchmarks.md](benchmarks.md) says what
rlproxy does under other loads, and [where a peer is ahead](#where-a-peer-is-ahead) says when not to use it.

## Speed and CPU

`)
	fmt.Fprintf(&b, `%d clients ask about %s random keys with a limit of %d a minute. In the first column each client waits for its answer before it asks again; in the
second it sends %d requests together, if the limiter's client can. Latencies and CPU belong to the first column. CPU is the time that all processes together
take for a decision, clients included; the next columns divide it between Redis, the limiter's server and the clients. A library runs in its caller, so its time is the client's.
Servers that speak RESP are asked by redis-benchmark, which takes less time than an application's client.

`, connections, number(keys), limit, depth)
	p.table(&b, speed, "")
	fmt.Fprintf(&b, `## State and accuracy

Bytes a key is memory on Redis, or the resident memory of a server that keeps the state itself, with what its garbage collector has not freed yet (rlproxy counts [less](benchmarks.md#memory)
against its maxmemory), for a key that has admitted one request, and for one that has admitted
its limit of %d at different moments. Worst window is the most that one client got within a second, as a multiple of the limit, when it asked without a pause around the edges
of windows; 1.00 keeps the limit. It is a short run and a lower bound. [accuracy.md](accuracy.md) searches for worse windows, and shows what lost replies, failovers and changed limits do to the same limiters.

`, limit)
	p.table(&b, state, " algorithm |")
	b.WriteString(`GCRA and token buckets promise a rate and a burst, and not that a trailing window holds at most the limit: they give back room all the time after a burst. Counters do not know when in a
window a request came, and two weighted counters assume that requests came evenly. Such a limiter can be the right one, but it makes another promise. RL.COUNTER with STRICT keeps the limit of any window with counters, too.
`)
	for _, r := range p.rows {
		if r.name == "throttlecrab" && r.worst > 2.05 {
			b.WriteString("throttlecrab passes 2.00 because its arithmetic lets a key that has been idle spend its burst twice.\n")
		}
	}
	b.WriteString(`
## When the store stops

Redis is suspended (it hangs: connections stay open, and nothing answers) or killed (it is gone: connections are refused). Then one request is sent, and another as soon as the first is answered. Settings are
those of the table at the end. Most limiters accept shorter timeouts, and an application should set them. A limiter that keeps the state in its own process has no store to lose, and loses the state with the process.

`)
	p.table(&b, stop, "")
	b.WriteString("An error leaves the decision to the caller. rlproxy answers by its FAIL policy, which a request can choose ([commands.md](commands.md)).\n\n")
	p.ahead(&b)
	p.how(&b)
	return b.String()
}
