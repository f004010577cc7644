package tests

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
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
)

// generated matches the line by which Go's tools know a generated file.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestPackagesStaySmall holds every package that ships to the bounds. Files for other systems
// count; tests and generated files do not.
func TestPackagesStaySmall(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	seen := 0
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath, Dir         string
			GoFiles, IgnoredGoFiles []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "tests/") || slices.Contains(testSupport, name) {
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
			lines += bytes.Count(text, []byte("\n"))
		}
		if files > 0 {
			seen++
		}
		require.LessOrEqual(t, files, maxPackageFiles, "files of %s", name)
		require.LessOrEqual(t, lines, maxPackageLines, "lines of %s", name)
	}
	require.GreaterOrEqual(t, seen, 30)
}
