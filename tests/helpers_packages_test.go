package tests

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is the project's module path, with the slash that follows it in import paths.
const module = "github.com/rlproxy/rlproxy/"

// goPackage is what `go list` reports about one of the project's packages.
type goPackage struct {
	ImportPath, Dir                    string
	GoFiles, IgnoredGoFiles            []string
	Imports, TestImports, XTestImports []string
}

// name returns the import path without the module.
func (p goPackage) name() string { return strings.TrimPrefix(p.ImportPath, module) }

// ships reports whether the package is part of the program, rather than of its tests.
func (p goPackage) ships() bool {
	name := p.name()
	return !strings.HasPrefix(name, "tests/") && name != "tests" && !strings.HasPrefix(name, "examples/") && !slices.Contains(testSupport, name)
}

// goPackages returns all packages of the project.
func goPackages(t *testing.T) (all []goPackage) {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,IgnoredGoFiles,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	for dec := json.NewDecoder(bytes.NewReader(out)); dec.More(); {
		var p goPackage
		require.NoError(t, dec.Decode(&p))
		all = append(all, p)
	}
	require.GreaterOrEqual(t, len(all), 30)
	return all
}
