package page

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPageComesWithItsPolicy(t *testing.T) {
	w := httptest.NewRecorder()
	Serve(w, httptest.NewRequest(http.MethodGet, "/", nil))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
	require.Equal(t, policy, w.Header().Get("Content-Security-Policy"))
	require.NotContains(t, policy, "unsafe")
	require.Len(t, regexp.MustCompile(`(script|style)-src 'sha256-[A-Za-z0-9+/]{43}=';`).FindAllString(policy, -1), 2, "one hash each: %s", policy)
}

// The page names nothing that a browser would load, and nothing that turns text into markup.
func TestPageLoadsNothingElse(t *testing.T) {
	page := strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", "") // a name, not an address
	for _, word := range []string{"http://", "https://", "src=", "@import", "url(", "innerHTML", "insertAdjacentHTML", "eval(", " style=", " onclick="} {
		require.NotContains(t, page, word)
	}
	require.Less(t, len(text), 96<<10, "bytes, of which gzip would leave a quarter")
}

// Every source is in the page, and the files and functions of the script stay small.
func TestSourcesAreSmallAndInThePage(t *testing.T) {
	files, err := fs.Glob(src, "src/*")
	require.NoError(t, err)
	require.Len(t, files, len(scripts)+2, "page.html, page.css and the script")
	for _, f := range files {
		source := read(filepath.Base(f))
		require.LessOrEqual(t, strings.Count(source, "\n"), 260, f)
		if !strings.HasSuffix(f, ".js") {
			continue
		}
		require.Contains(t, string(text), source)
		for _, m := range regexp.MustCompile(`(?ms)^(?:async )?function (\w+)\(.*?^}`).FindAllStringSubmatch(source, -1) {
			require.LessOrEqual(t, strings.Count(m[0], "\n"), 40, "lines of %s in %s", m[1], f)
		}
	}
}
