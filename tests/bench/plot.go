package main

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Sizes of the picture, in pixels. Pages show it at 800 pixels or less.
const (
	plotWidth  = 800.0
	plotLeft   = 300.0 // of the axis
	plotRight  = 740.0
	rowHeight  = 23.0
	topHeight  = 92.0
	footHeight = 82.0
)

// axis is a logarithmic axis from one value to another.
type axis struct{ from, to float64 }

func (a axis) at(v float64) float64 {
	v = min(max(v, a.from), a.to)
	return plotLeft + (plotRight-plotLeft)*math.Log(v/a.from)/math.Log(a.to/a.from)
}

// plotStyle has the colours for light and for dark pages. The two sides also differ in
// shape.
const plotStyle = `<style>
text { font: 13px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.page { fill: #ffffff }
.title { font-size: 17px; font-weight: 600 }
.group { font-weight: 600 }
.dim { fill: #59636e }
.grid { stroke: #d1d9e0 }
.gain { stroke: #0969da; stroke-width: 2; opacity: .45 }
.loss { stroke: #bc4c00; stroke-width: 2; opacity: .45 }
.direct { fill: #ffffff; stroke: #bc4c00; stroke-width: 2.5 }
.rlproxy { fill: #0969da; stroke: #0969da }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.page { fill: #0d1117 }
.dim { fill: #9198a1 }
.grid { stroke: #3d444d }
.gain { stroke: #4493f8 }
.loss { stroke: #f0883e }
.gain, .loss { opacity: .7 }
.direct { fill: #0d1117; stroke: #f0883e }
.rlproxy { fill: #4493f8; stroke: #4493f8 }
}
</style>
`

// plot returns a picture of what one Redis core carries in each case: a ring for the script, and
// a dot for rlproxy.
func (r *report) plot() string {
	var b strings.Builder
	groups, rows := r.plotted()
	bottom := topHeight + rowHeight*float64(rows+len(groups))
	height := bottom + footHeight
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="what">`+"\n", plotWidth, height)
	b.WriteString(`<title id="what">Decisions per second that one Redis core carries, with a script and with rlproxy</title>` + "\n" + plotStyle)
	fmt.Fprintf(&b, `<rect class="page" width="%.0f" height="%.0f"/>`+"\n", plotWidth, height)
	text(&b, 16, 30, "start", "title", "What one Redis core carries, in decisions per second (logarithmic axis)")
	circle(&b, 24, 51, "direct")
	text(&b, 36, 55.5, "start", "", "a Lua script, sent to Redis by the application")
	circle(&b, 364, 51, "rlproxy")
	text(&b, 376, 55.5, "start", "", "rlproxy, in front of the same Redis")
	scale := axis{1e4, 1e7}
	for v := scale.from; v <= scale.to; v *= 10 {
		x := scale.at(v)
		stroke(&b, x, topHeight-6, x, bottom, "grid")
		text(&b, x, topHeight-12, "middle", "dim", abbreviated(v))
	}
	y := topHeight + rowHeight/2
	for _, g := range groups {
		text(&b, 16, y+4.5, "start", "group", g.title)
		y += rowHeight
		for _, row := range g.rows {
			text(&b, plotLeft-14, y+4.5, "end", "", plotLabel(row))
			pair(&b, scale, y, row)
			y += rowHeight
		}
	}
	text(&b, 16, bottom+24, "start", "dim", "What a core carries: one second, divided by the CPU time that Redis takes for a decision.")
	text(&b, 16, bottom+44, "start", "dim", "Cold keys: each request is about one of 100,000 keys. Hot key: all requests are about one key.")
	text(&b, 16, bottom+64, "start", "dim", "n at a time: how many requests a client sends together. rlproxy remembers denials, and then Redis is not asked.")
	b.WriteString("</svg>\n")
	return b.String()
}

// plotGroup has the cases of one command.
type plotGroup struct {
	title string
	rows  []result
}

// plotted returns the cases with one and with 16 requests at a time that take CPU time of a node on
// both sides, and their number. A key that is always denied takes hardly any: rlproxy remembers the denial.
func (r *report) plotted() (groups []plotGroup, rows int) {
	all := append(r.in(decisions), r.in(everyday)...)
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(rank(a), rank(b)) })
	for _, row := range all {
		if row.as.node == 0 || row.bs.node == 0 || row.b.depth > 16 || strings.HasSuffix(row.title, "one denied key") {
			continue
		}
		command, _, _ := strings.Cut(row.title, ", ")
		if len(groups) == 0 || groups[len(groups)-1].title != command {
			groups = append(groups, plotGroup{title: command})
		}
		g := &groups[len(groups)-1]
		g.rows, rows = append(g.rows, row), rows+1
	}
	return groups, rows
}

// rank returns a number by which cases are sorted: by their command, and those with several commands last.
func rank(row result) int {
	for i, q := range algorithms {
		if strings.HasPrefix(row.title, q.command+", ") {
			return i
		}
	}
	return len(algorithms)
}

// plotLabel returns the description of a case.
func plotLabel(row result) string {
	_, label, found := strings.Cut(row.title, ", ")
	if !found {
		label = "all of them in turn"
	}
	label = strings.NewReplacer("Redis Cluster, 3 masters, cold keys", "cold keys in a Cluster", "one hot key with room", "one hot key", " a second", "/s", " in 10 s", "/10 s").Replace(label)
	if row.b.depth == 1 {
		return label + ", one at a time"
	}
	return fmt.Sprintf("%s, %d at a time", label, row.b.depth)
}

// pair draws both sides of one case.
func pair(b *strings.Builder, scale axis, y float64, row result) {
	direct, proxied := row.as.perCore(), row.bs.perCore()
	class := "gain"
	if proxied < direct {
		class = "loss"
	}
	stroke(b, scale.at(direct), y, scale.at(proxied), y, class)
	circle(b, scale.at(direct), y, "direct")
	circle(b, scale.at(proxied), y, "rlproxy")
	left, right := min(direct, proxied), max(direct, proxied)
	text(b, scale.at(left)-10, y+4.5, "end", "dim", abbreviated(left))
	text(b, scale.at(right)+10, y+4.5, "start", "", abbreviated(right))
}

// abbreviated returns a large number as text with three digits, such as 89.3 k.
func abbreviated(v float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if v >= unit.size {
			return fmt.Sprintf("%.3g", v/unit.size) + unit.name
		}
	}
	return fmt.Sprintf("%.3g", v)
}

func circle(b *strings.Builder, x, y float64, class string) {
	fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="5" class="%s"/>`+"\n", x, y, class)
}

func stroke(b *strings.Builder, x1, y1, x2, y2 float64, class string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" class="%s"/>`+"\n", x1, y1, x2, y2, class)
}

func text(b *strings.Builder, x, y float64, anchor, class, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" class="%s">%s</text>`+"\n", x, y, anchor, class, html.EscapeString(s))
}
