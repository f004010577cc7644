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
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

//go:embed page.md
var text string

// line is one row with what was found of it.
type line struct {
	*row
	*figures
}

// other is another limiter with what was found of it.
type other struct {
	name string
	seen
	alone bool   // it keeps its state in its own process, so that several clients of it are not measured
	wrong string // why it was not measured; empty if it was
}

// page is what docs/accuracy.md says.
type page struct {
	Seed    uint64
	effort  effort
	Minutes int
	Redis   string // the version of redis-server
	Rows    []line
	Others  []other
	Restart float64 // admitted in all, of a limit, if the embedded engine was restarted when half of it was used
}

// Effort returns how long was looked.
func (p *page) Effort() map[string]int64 {
	e := p.effort
	return map[string]int64{
		"Limit": e.limit, "Waits": int64(e.waits), "Phases": int64(e.phases), "Rounds": int64(e.rounds), "Schedules": int64(e.rounds) * width,
		"Seconds": setWindow / 1000, "Step": setWindow / (stepsPerUnit * e.limit),
	}
}

// Shape says how the day was made.
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

// Faulty returns the lines of the table of faults.
func (p *page) Faulty() (out []string) {
	for _, l := range p.Rows {
		f, twice, once := l.faults, fmt.Sprint(l.faults.Twice), "none"
		if f.Forever {
			twice += ", and the key never expires"
		}
		if l.once {
			once = fmt.Sprint(f.Once)
		}
		out = append(out, fmt.Sprintf("%s | %s | %s | %.2f | %.2f", l.code(), twice, once, f.InStep, f.Behind))
	}
	return out
}

// Seen returns the lines of the table of what clients find by real clocks.
func (p *page) Seen() (out []string) {
	limiters := make([]other, 0, len(p.Rows)+len(p.Others))
	for _, l := range p.Rows {
		limiters = append(limiters, other{name: l.code(), seen: l.seen})
	}
	for _, g := range append(limiters, p.Others...) {
		if g.wrong != "" {
			out = append(out, g.name+" | not measured: "+g.wrong+" | | | | | |")
			continue
		}
		crowd := fmt.Sprintf("%.2f", g.Crowd)
		if g.alone {
			crowd = ""
		}
		out = append(out, fmt.Sprintf("%s | %.2f | %.2f | %s | %s | %s | %.2f | %d",
			g.name, g.Worst, g.Minutes.Worst, percent(g.Minutes.False, g.Minutes.Requests), waited(g.Waits), crowd, g.Raised, g.Lowered))
	}
	return out
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

// waited says what became of denials whose retry_after was waited for.
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
