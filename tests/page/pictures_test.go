package page

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

var (
	pictures = flag.String("pictures", "", "keep the pictures of the page in this folder")
	loaded   = flag.Duration("loaded", 0, "how long there is a load before them: the page shows five minutes")
)

// TestPicturesOfThePage takes those that the documents show, and holds them small. They show two real proxies and three
// real nodes under a real load; one node hangs in the end.
func TestPicturesOfThePage(t *testing.T) {
	t.Parallel()
	folder := *pictures
	if folder == "" {
		folder = t.TempDir()
	}
	nodes := []*redistest.Server{redistest.Start(t), redistest.Start(t), redistest.Start(t)}
	args := []string{"--backend-timeout", "1000"}
	for _, n := range nodes {
		args = append(args, "--backend", n.URL())
	}
	r, other := start(t, append(args, "--page-admin", "yes")...), start(t, args...)
	r.setPolicies(t)
	other.load(t, day[1], day[2])
	r.load(t, slices.Concat(day[1:], day[2:5])...)
	<-time.After(*loaded / 2) // zero, but for the documents
	r.load(t, day[0], day[0], day[0])
	p := open(t, r.page, 1280, 900, "light")
	p.sees(row("tenant:42"), " %")
	<-time.After(*loaded / 2)

	shoot := func(name string, width, height int64, scheme string) {
		p.prefers("prefers-color-scheme", scheme)
		p.resize(width, height)
		png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.Less(t, len(png), 250<<10, "bytes")
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), png, 0o644))
	}
	shoot("page-light.png", 1280, 900, "light")
	p.click("[data-view=policies]")
	p.sees("#policies", "search SLIDE 2000 1m")
	p.click("#policies summary")
	p.sees("#policies", "turned away")
	p.holds(`/^[1-9]/.test(document.querySelector("#policies td").textContent)`)
	shoot("page-policies.png", 1280, 900, "light")
	p.click("[data-view=fleet]")
	p.sees("#view-note", "Added up over 2 proxies.")
	shoot("page-fleet.png", 1280, 900, "dark")
	p.click("[data-view=keys]")
	p.click(row("tenant:42") + " a")
	p.sees("#verdict", "The limit of 600 per 1 min is reached.")
	shoot("page-key.png", 1280, 900, "light")
	p.click("#close")

	nodes[1].Pause()
	p.sees("#problems", nodes[1].Addr)
	p.sees("#problems", "refused because a node does not answer")
	<-time.After(*loaded / 6)
	shoot("page-dark.png", 1280, 900, "dark")
	shoot("page-narrow.png", 360, 1900, "light")
	nodes[1].Resume()
}
