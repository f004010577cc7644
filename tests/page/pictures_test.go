package page

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

var pictures = flag.String("pictures", "", "keep the pictures of the page in this folder")

// TestPicturesOfThePage takes those that the documents show, and holds them small.
func TestPicturesOfThePage(t *testing.T) {
	t.Parallel()
	folder := *pictures
	if folder == "" {
		folder = t.TempDir()
	}
	for _, shot := range []struct {
		name          string
		width, height int64
		scheme        string
		hash          string
	}{
		{"page-light.png", 1280, 900, "light", ""},
		{"page-dark.png", 1280, 900, "dark", ""},
		{"page-narrow.png", 360, 1700, "light", ""},
		{"page-key.png", 1280, 900, "dark", "#key=" + id("tenant:42")},
	} {
		t.Run(shot.name, func(t *testing.T) {
			t.Parallel()
			f := showcase(t)
			p := open(t, f.URL+shot.hash, shot.width, shot.height, shot.scheme)
			p.holds(`!!snapshot && trails.get(snapshot.keys[0].id).length > 58`)
			png, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
			require.NoError(t, err)
			require.Less(t, len(png), 200<<10, "bytes")
			require.NoError(t, os.WriteFile(filepath.Join(folder, shot.name), png, 0o644))
		})
	}
}
