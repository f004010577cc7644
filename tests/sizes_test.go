package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bounds of a package, see CONTRIBUTING.md.
const (
	maxPackageFiles = 20
	maxPackageLines = 2500
	maxFileLines    = 400
)

// smaller are packages that have lower bounds: they have grown too large before.
var smaller = map[string]struct{ files, lines int }{"engine/redis": {14, 2000}}

// generated matches the line by which Go's tools know a generated file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestPackagesStaySmall checks the bounds of every package that ships and of its files. Files for other systems
// count; tests and generated files do not.
func TestPackagesStaySmall(t *testing.T) {
	t.Parallel()
	for _, p := range goPackages(t) {
		if !p.ships() {
			continue
		}
		files, lines := 0, 0
		for _, f := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			text, err := os.ReadFile(filepath.Join(p.Dir, f))
			require.NoError(t, err)
			if strings.HasSuffix(f, "_test.go") || generated.Match(text) {
				continue
			}
			files++
			n := bytes.Count(text, []byte("\n"))
			lines += n
			require.LessOrEqual(t, n, maxFileLines, "lines of %s/%s", p.name(), f)
		}
		bound, ok := smaller[p.name()]
		if !ok {
			bound.files, bound.lines = maxPackageFiles, maxPackageLines
		}
		require.LessOrEqual(t, files, bound.files, "files of %s", p.name())
		require.LessOrEqual(t, lines, bound.lines, "lines of %s", p.name())
	}
}
