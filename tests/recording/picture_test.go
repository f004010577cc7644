package recording

import (
	"fmt"
	"html"
	"strings"
	"time"
)

// How long things take in the picture.
const (
	perKey    = 35 * time.Millisecond  // to type a character
	thinking  = 700 * time.Millisecond // before a command is typed
	answering = 250 * time.Millisecond // from the last character to the answer
	reading   = 4 * time.Second        // after the last answer of a scene
)

// Sizes in pixels.
const (
	width   = 760
	leading = 20  // from line to line
	top     = 46  // of the first line
	left    = 18  // of the lines
	beside  = 230 // of the notes
)

// style is for light and dark pages. Where motion is unwanted, the first scene stands still.
const style = `
text { font: 13.5px ui-monospace, "SF Mono", Menlo, Consolas, monospace; white-space: pre; fill: #1f2328 }
.page { fill: #f6f8fa; stroke: #d1d9e0 }
.dot { fill: #d1d9e0 }
.typed { font-weight: 600 }
.note { fill: #59636e; font-style: italic }
.prompt { fill: #0969da }
g g { opacity: 0; animation: 1s step-end infinite }
.scene0 { opacity: 1 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc }
.page { fill: #151b23; stroke: #3d444d }
.dot { fill: #3d444d }
.note { fill: #9198a1 }
.prompt { fill: #4493f8 }
}
@media (prefers-reduced-motion: reduce) { g g, .typed { animation: none !important } }
`

// shown is a line with the times at which it begins to appear and is complete, and disappears with its scene.
type shown struct {
	line
	scene, row       int
	begin, full, end time.Duration
}

// schedule gives the lines their times and returns them with the length of the whole.
func schedule(scenes [][]line) (all []shown, whole time.Duration) {
	now := time.Duration(0)
	for i, scene := range scenes {
		first := len(all)
		for row, l := range scene {
			s := shown{line: l, scene: i, row: row}
			if l.typed {
				now += thinking
				s.begin = now
				now += time.Duration(len(l.text)) * perKey
				s.full = now
				now += answering
			} else {
				s.begin, s.full = now, now
			}
			all = append(all, s)
		}
		now += reading
		for j := range all[first:] {
			all[first+j].end = now
		}
	}
	return all, now
}

// picture draws the scenes as an animated SVG, which ends by starting anew.
func picture(scenes [][]line) string {
	all, whole := schedule(scenes)
	rows := 0
	for _, scene := range scenes {
		rows = max(rows, len(scene))
	}
	height := top + rows*leading
	percent := func(d time.Duration) string { return fmt.Sprintf("%.2f%%", 100*d.Seconds()/whole.Seconds()) }
	var css, body strings.Builder
	for i, s := range all {
		fmt.Fprintf(&css, "@keyframes l%d { 0%% { opacity: 0 } %s { opacity: 1 } %s { opacity: 0 } }\n", i, percent(s.begin), percent(s.end))
		y := top + s.row*leading
		fmt.Fprintf(&body, `<g class="scene%d" style="animation-name: l%d">`, s.scene, i)
		if s.typed {
			fmt.Fprintf(&css, "@keyframes t%d { 0%%, %s { clip-path: inset(0 100%% 0 0); animation-timing-function: steps(%d, end) } %s { clip-path: inset(0) } }\n",
				i, percent(s.begin), len(s.text), percent(s.full))
			fmt.Fprintf(&body, `<text class="prompt" x="%d" y="%d">$</text><text class="typed" style="animation-name: t%d" x="%d" y="%d">%s</text>`,
				left, y, i, left+16, y, html.EscapeString(s.text))
		} else {
			fmt.Fprintf(&body, `<text x="%d" y="%d">%s</text>`, left, y, html.EscapeString(s.text))
		}
		if s.note != "" {
			fmt.Fprintf(&body, `<text class="note" x="%d" y="%d">%s</text>`, beside, y, html.EscapeString(s.note))
		}
		body.WriteString("</g>\n")
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-labelledby="what">
<title id="what">A terminal. RL.SLIDE with a limit of 2 in 60 seconds admits two requests and denies the third; curl gets 200, then 429 and Retry-After.</title>
<style>%sg g, .typed { animation-duration: %.2fs }
.typed { animation-iteration-count: infinite }
%s</style>
<rect class="page" x="0.5" y="0.5" width="%d" height="%d" rx="8"/>
<circle class="dot" cx="20" cy="16" r="5"/><circle class="dot" cx="38" cy="16" r="5"/><circle class="dot" cx="56" cy="16" r="5"/>
<g>
%s</g>
</svg>
`, width, height, style, whole.Seconds(), css.String(), width-1, height-1, body.String())
}
