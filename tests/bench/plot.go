package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the plot, in pixels. Two panels share the cases' names at the left.
const (
	nameWidth  = 360.0
	panelWidth = 440.0
	panelGap   = 40.0
	barHeight  = 13.0
	rowHeight  = 22.0
	topHeight  = 96.0
)

// scale is a logarithmic axis: a multiple has its place whatever its size, and half
// is as far from one as double.
type scale struct{ left, from, to float64 }

func (s scale) at(v float64) float64 {
	v = min(max(v, s.from), s.to)
	return s.left + panelWidth*math.Log(v/s.from)/math.Log(s.to/s.from)
}

// The colours of bars by verdict: they differ in lightness too.
var colours = map[string]string{"goal met": "#1b7f4b", "floor met": "#e0a526", "**missed**": "#c0392b", "": "#7f8c8d"}

// plot draws the table of decisions: a bar a case from 1 to the multiple, with the
// floor and the goal as marks on it.
func (r *report) plot() string {
	rows := r.in(decisions)
	panels := []struct {
		title string
		scale
		ticks []float64
	}{
		{"decisions per second", scale{nameWidth, 0.25, 32}, []float64{0.25, 0.5, 1, 2, 4, 8, 16, 32}},
		{"decisions per CPU second of the Redis node", scale{nameWidth + panelWidth + panelGap, 0.5, 2048}, []float64{0.5, 1, 4, 16, 64, 256, 1024}},
	}
	width := nameWidth + 2*panelWidth + panelGap + 60
	height := topHeight + rowHeight*float64(len(rows)) + 40
	bottom := topHeight + rowHeight*float64(len(rows)) + 4
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="12" fill="#222">`+"\n", width, height)
	fmt.Fprintf(&b, `<rect width="%.0f" height="%.0f" fill="white"/>`+"\n", width, height)
	text(&b, 12, 26, "start", `font-size="17" font-weight="bold"`, "rlproxy as a multiple of direct EVALSHA")
	legend(&b)
	for _, p := range panels {
		text(&b, p.left, 68, "start", `font-weight="bold"`, p.title)
		for _, t := range p.ticks {
			x := p.at(t)
			colour, strokeWidth := "#dddddd", 1.0
			if t == 1 {
				colour, strokeWidth = "#222222", 1.5
			}
			stroke(&b, x, topHeight-6, x, bottom, colour, strokeWidth)
			text(&b, x, topHeight-12, "middle", `font-size="11" fill="#555"`, fmt.Sprintf("%gx", t))
		}
	}
	for i, row := range rows {
		y := topHeight + rowHeight*float64(i) + 4
		text(&b, nameWidth-14, y+barHeight-2, "end", "", fmt.Sprintf("%s, -P %d", row.title, row.b.depth))
		for j, f := range row.figures {
			bar(&b, panels[j].scale, y, row.values[j].median, f)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// bar draws one figure. Past the axis's end the number alone tells.
func bar(b *strings.Builder, s scale, y, v float64, f figure) {
	from, to := s.at(min(v, 1)), s.at(max(v, 1))
	fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", from, y, max(to-from, 1), barHeight, colours[f.verdict(v)])
	if f.floor > 0 {
		x, goal := s.at(f.floor), s.at(f.goal)
		stroke(b, x, y-3, x, y+barHeight+3, "#222222", 2)
		fmt.Fprintf(b, `<path d="M%.1f %.1f l5 6.5 l-5 6.5 l-5 -6.5z" fill="white" stroke="#222222"/>`+"\n", goal, y)
		to = max(to, goal+5, x)
	}
	text(b, to+6, y+barHeight-2, "start", `font-weight="bold"`, short(v))
}

func legend(b *strings.Builder) {
	x := nameWidth + panelWidth + panelGap
	stroke(b, x, 14, x, 32, "#222222", 2)
	text(b, x+8, 27, "start", "", "floor")
	fmt.Fprintf(b, `<path d="M%.1f 16 l5 6.5 l-5 6.5 l-5 -6.5z" fill="white" stroke="#222222"/>`+"\n", x+64)
	text(b, x+74, 27, "start", "", "goal")
	for i, c := range []struct{ verdict, title string }{{"goal met", "goal met"}, {"floor met", "floor met"}, {"**missed**", "missed"}} {
		at := x + 124 + 90*float64(i)
		fmt.Fprintf(b, `<rect x="%.1f" y="16" width="13" height="13" fill="%s"/>`+"\n", at, colours[c.verdict])
		text(b, at+18, 27, "start", "", c.title)
	}
}

func stroke(b *strings.Builder, x1, y1, x2, y2 float64, colour string, width float64) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`+"\n", x1, y1, x2, y2, colour, width)
}

func text(b *strings.Builder, x, y float64, anchor, style, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" %s>%s</text>`+"\n", x, y, anchor, style, html.EscapeString(s))
}
