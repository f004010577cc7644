package accuracy

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

//go:embed page.md
var text string

// line is one row and its results.
type line struct {
	*row
	*figures
}

// other is another limiter and its results.
type other struct {
	name string
	faults
	seen
	wrong string // why it was not measured; empty if it was
}

// page has the contents of docs/accuracy.md.
type page struct {
	Seed     uint64
	effort   effort
	Minutes  int
	Redis    string // the version of redis-server
	Rows     []line
	Others   []other
	Embedded faults // of RL.SLIDE with the state in rlproxy's memory
}

// Effort returns how long was looked.
func (p *page) Effort() map[string]int64 {
	e := p.effort
	return map[string]int64{
		"Limit": e.limit, "Waits": int64(e.waits), "Phases": int64(e.phases), "Rounds": int64(e.rounds), "Schedules": int64(e.rounds) * width,
		"Seconds": setWindow / 1000, "Step": setWindow / (stepsPerUnit * e.limit),
	}
}

// Shape describes how the day was generated.
func (p *page) Shape() string {
	return fmt.Sprintf("%d requests of %d clients, made at random in the shape that logs of web servers have, with a limit of %d in %d s for each client. Which client begins a session follows Zipf's law "+
		"(exponent %g). A session has 3 requests or more (Pareto, exponent %g, at most %d). Pauses within it are log-normal with a median of %d ms and a sigma of %g, and of the requests %g %% come in the same millisecond as "+
		"the one before. Sessions begin most often at 15:00, and a fifth as often at 3:00.",
		p.effort.requests, clients, perMinute.limit, perMinute.window/1000, zipfExponent, sessionAlpha, sessionMost, pauseMedian, pauseSigma, together*100)
}

// Measured reports whether there are figures of a limiter of package peers.
func (p *page) Measured(name string) bool {
	return slices.ContainsFunc(p.Others, func(o other) bool { return o.name == name && o.wrong == "" })
}

// row returns the line of a limiter.
func (p *page) row(name string) line {
	for _, l := range p.Rows {
		if l.name == name {
			return l
		}
	}
	panic("no row has the name " + name)
}

// Most returns the most in a trailing window that the search found, over the limit.
func (p *page) Most(name string) string { return fmt.Sprintf("%.2f", p.row(name).patient) }

// Worst returns the most of a client of the day, over the limit.
func (p *page) Worst(name string) string { return fmt.Sprintf("%.2f", p.row(name).day.Worst) }

// False returns the share of the day's requests that were denied though there was room.
func (p *page) False(name string) string {
	d := p.row(name).day
	return percent(d.False, d.Requests)
}

// Back returns after how many windows all room is back.
func (p *page) Back(name string) string { return fmt.Sprintf("%.2f", p.row(name).back) }

// write writes the page.
func (p *page) write(t testing.TB, folder string) {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, template.Must(template.New("").Parse(text)).Execute(&b, p))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "accuracy.md"), b.Bytes(), 0o600))
}

func (l line) code() string {
	if l.command {
		return "`" + l.name + "`"
	}
	return l.name
}

// Margin returns by how many ms what a real clock decides must be before or after a moment.
func (p *page) Margin() int64 { return realMargin }

// Clients returns how many clients of a peer ask at once.
func (p *page) Clients() int { return processes }

// Exactly returns the lines of the table of what was measured with clocks that the test sets.
func (p *page) Exactly() (out []string) {
	for _, l := range p.Rows {
		out = append(out, fmt.Sprintf("%s, %s | %.2f | %.2f | %.2f | %s | %.2f | %s | %.2f | %s",
			l.code(), l.about, l.edge, l.greedy, l.patient, waited(l.waits), l.day.Worst, percent(l.day.False, l.day.Requests),
			l.back, percent(l.day.Admitted, l.day.Requests)))
	}
	return out
}

// limiters returns all of them, the rows first.
func (p *page) limiters() (out []other) {
	for _, l := range p.Rows {
		out = append(out, other{name: l.code(), faults: l.faults, seen: l.seen})
	}
	return append(out, p.Others...)
}

// table returns the lines of a table of so many columns after the name.
func table(limiters []other, columns int, cells func(g other) string) (out []string) {
	for _, g := range limiters {
		text := "not measured: " + g.wrong + strings.Repeat(" |", columns-1)
		if g.wrong == "" {
			text = cells(g)
		}
		out = append(out, g.name+" | "+text)
	}
	return out
}

// Faulty returns the lines of the table of faults.
func (p *page) Faulty() (out []string) {
	all := slices.Insert(p.limiters(), 1, other{name: "`RL.SLIDE` in rlproxy's memory", faults: p.Embedded})
	return table(all, 7, func(g other) string {
		f := g.faults
		failover := fmt.Sprintf("%.2f | %.2f", f.InStep, f.Behind)
		if f.Restart > 0 {
			failover = fmt.Sprintf("restart: %.2f | -", f.Restart)
		}
		if failover += " | -"; f.Confirmed > 0 {
			failover = fmt.Sprintf("%.2f | %.2f | %.2f", f.InStep, f.Behind, f.Confirmed)
		}
		return fmt.Sprintf("%s | %s | %s | %s | %.2f", f.Redis, f.Caller, f.Once, failover, f.Crowd)
	})
}

func (c charge) String() string {
	s := "-"
	if c.Units > 0 {
		s = fmt.Sprint(c.Units)
	}
	if c.Silent {
		s += ", without an error"
	}
	if c.Forever {
		s += ", and the key never expires"
	}
	return s
}

// Seen returns the lines of the table of what clients find by real clocks.
func (p *page) Seen() (out []string) {
	return table(p.limiters(), 6, func(g other) string {
		return fmt.Sprintf("%.2f | %.2f | %.2f | %.2f | %s | %s", g.Edge, g.Greedy, g.Patient, g.Minutes.Worst, percent(g.Minutes.False, g.Minutes.Requests), waited(g.Waits))
	})
}

// Changed returns the lines of the table of changed limits.
func (p *page) Changed() (out []string) {
	return table(p.limiters(), 6, func(g other) string {
		r, l := g.Changes.Raised, g.Changes.Lowered
		return fmt.Sprintf("%d | %.2f | %.2f | %d | %.2f | %.2f", r.AtOnce, r.Worst, r.Later, l.AtOnce, l.Worst, l.Later)
	})
}

// version returns the version of redis-server.
func version(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("redis-server", "--version").Output()
	require.NoError(t, err)
	m := regexp.MustCompile(`v=(\S+)`).FindSubmatch(out)
	require.NotNil(t, m, "%s", out)
	return "redis-server " + string(m[1])
}

func percent(n, of int) string {
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%.2f %%", 100*float64(n)/float64(of))
}

// waited describes the outcome of waiting for the retry_after of denials.
func waited(w waits) string {
	switch {
	case w.Tried == 0:
		return "not said"
	case w.Exact == w.Tried:
		return "exact"
	}
	s := ""
	for _, c := range []struct {
		n    int
		what string
	}{{w.Exact, "exact"}, {w.Early, "too short"}, {w.Late, "longer than needed"}} {
		if c.n > 0 {
			if s != "" {
				s += ", "
			}
			s += fmt.Sprintf("%d of %d %s", c.n, w.Tried, c.what)
		}
	}
	return s
}
