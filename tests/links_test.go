package tests

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	linkOf    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	headingOf = regexp.MustCompile(`(?m)^#+ (.+)$`)
	fenced    = regexp.MustCompile("(?ms)^```.*?^```")
	unlinked  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// Each link of a page names a file or folder that exists and, after a #, one of its headings, in the form of GitHub's
// anchors.
func TestLinksOfPagesAreValid(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		text, err := os.ReadFile(path) // #nosec G304 -- a page of this repository
		require.NoError(t, err)
		return fenced.ReplaceAllString(string(text), "")
	}
	anchors := func(path string) map[string]bool {
		found := map[string]bool{}
		for _, heading := range headingOf.FindAllStringSubmatch(read(path), -1) {
			found[strings.ReplaceAll(unlinked.ReplaceAllString(strings.ToLower(heading[1]), ""), " ", "-")] = true
		}
		return found
	}
	links := 0
	var pages []string
	for _, pattern := range []string{"../*.md", "../docs/*.md", "../docs/adr/*.md", "../examples/*.md", "*.md"} {
		found, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		pages = append(pages, found...)
	}
	for _, page := range pages {
		for _, link := range linkOf.FindAllStringSubmatch(read(page), -1) {
			file, anchor, _ := strings.Cut(link[1], "#")
			if strings.Contains(file, ":") {
				continue // on another site
			}
			links++
			target := page
			if file != "" {
				target = filepath.Join(filepath.Dir(page), file)
			}
			_, err := os.Stat(target)
			require.NoError(t, err, "%s links to %s", page, link[1])
			if anchor != "" {
				require.Contains(t, anchors(target), anchor, "%s links to %s", page, link[1])
			}
		}
	}
	require.Greater(t, links, 100)
}
