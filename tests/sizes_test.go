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

// wide lists the files that still have lines of more than maxColumns. It only ever gets shorter.
var wide = []string{
	"commands/ratelimit/algorithm.go",
	"commands/ratelimit/and.go",
	"commands/ratelimit/bucket.go",
	"commands/ratelimit/counter.go",
	"commands/ratelimit/errors.go",
	"commands/ratelimit/fixed.go",
	"commands/ratelimit/inspect.go",
	"commands/ratelimit/parse.go",
	"commands/ratelimit/policy.go",
	"commands/ratelimit/ratelimit.go",
	"commands/ratelimit/slide.go",
	"commands/ratelimit/throttle.go",
	"engine/backend/fleet.go",
	"engine/backend/topology.go",
	"engine/hold/admit.go",
	"engine/hold/book.go",
	"engine/hold/cells.go",
	"engine/hold/hold.go",
	"engine/hold/ids.go",
	"engine/hold/settle.go",
	"engine/hold/window.go",
	"engine/hotkeys/hotkeys.go",
	"engine/hotkeys/record.go",
	"engine/layout/compare.go",
	"engine/layout/layout.go",
	"engine/layout/report.go",
	"engine/limit/bucket.go",
	"engine/limit/counter.go",
	"engine/limit/decide.go",
	"engine/limit/kinds.go",
	"engine/limit/limit.go",
	"engine/limit/slots.go",
	"engine/limit/state.go",
	"engine/memory/hold.go",
	"engine/memory/memory.go",
	"engine/registry/registry.go",
	"engine/split/whole.go",
	"engine/traffic/traffic.go",
	"engine/wire/call.go",
	"engine/wire/lease.go",
	"lua/algorithms.lua",
	"lua/all.lua",
	"lua/bucket.lua",
	"lua/counter.lua",
	"lua/decide.lua",
	"lua/each.lua",
	"lua/fast_holds.lua",
	"lua/fixed.lua",
	"lua/gcra.lua",
	"lua/holds.lua",
	"lua/ids.lua",
	"lua/layout.lua",
	"lua/lua.go",
	"lua/rate.lua",
	"lua/record.lua",
	"lua/slide.lua",
	"lua/spec.lua",
	"policy/store/report.go",
	"policy/store/store.go",
	"shard/lease/messages.go",
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
			if slices.Contains(wide, p.name()+"/"+filepath.Base(f)) {
				continue
			}
			for i, line := range strings.Split(string(text), "\n") {
				line = strings.ReplaceAll(line, "\t", "    ")
				require.LessOrEqual(t, utf8.RuneCountInString(line), maxColumns, "%s:%d", f, i+1)
			}
			files++
		}
	}
	require.Greater(t, files, 250)
}
