package tests

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// The bounds of a package, see CONTRIBUTING.md.
const (
	maxPackageFiles = 20
	maxPackageLines = 2500
	maxFileLines    = 400
	maxColumns      = 120 // of production code and comments, in Go and Lua; a tab is 4
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

// TestColumnsStayFew checks the width of the lines of all Go and Lua files that ship.
func TestColumnsStayFew(t *testing.T) {
	t.Parallel()
	files := 0
	for _, p := range goPackages(t) {
		if !p.ships() {
			continue
		}
		inLua, err := filepath.Glob(filepath.Join(p.Dir, "*.lua"))
		require.NoError(t, err)
		shipped := inLua
		for _, f := range slices.Concat(p.GoFiles, p.IgnoredGoFiles) {
			if !strings.HasSuffix(f, "_test.go") {
				shipped = append(shipped, filepath.Join(p.Dir, f))
			}
		}
		for _, f := range shipped {
			text, err := os.ReadFile(f) // #nosec G304 -- a file of this repository
			require.NoError(t, err)
			for i, line := range strings.Split(string(text), "\n") {
				line = strings.ReplaceAll(line, "\t", "    ")
				require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s:%d", f, i+1)
			}
			files++
		}
	}
	require.Greater(t, files, 250)
}
