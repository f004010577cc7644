package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/rlproxy/rlproxy/"

// allowed says which of the project's packages each may import. One that is not
// here may import none, and a new one needs a line.
var allowed = map[string][]string{
	"cmd/rlproxy":      {"resp", "commands", "engine", "internal/keypair"},
	"commands":         {"engine", "resp"},
	"engine":           {"shard", "lua", "internal/keypair"},
	"resp":             nil,
	"shard":            nil,
	"lua":              nil,
	"internal/keypair": nil,
	"tests":            nil,
}

// testSupport is what only tests import: it ships with nothing.
var testSupport = []string{"internal/redistest", "internal/faultnet", "internal/proxytest"}

// alone says which one package a library may be imported by.
var alone = map[string]string{
	"github.com/redis/go-redis": "engine",
	"github.com/tidwall/redcon": "resp",
	"github.com/youmark/pkcs8":  "internal/keypair",
}

// TestImports holds that imports point one way, tests excepted where they use a
// library as a client does.
func TestImports(t *testing.T) {
	cmd := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,XTestImports", "./...")
	cmd.Dir = ".."
	out, err := cmd.Output()
	require.NoError(t, err)
	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; seen++ {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		err := dec.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		name := strings.TrimPrefix(p.ImportPath, module)
		if strings.HasPrefix(name, "tests/") {
			name = "tests"
		}
		may, known := allowed[name]
		support := slices.Contains(testSupport, name)
		require.True(t, known || support, "%s: say in this test what it may import", name)
		for _, i := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if ours, ok := strings.CutPrefix(i, module); ok && ours != name && !slices.Contains(testSupport, ours) {
				require.Contains(t, may, ours, "%s must not import %s", name, ours)
			}
		}
		for _, i := range p.Imports {
			require.NotContains(t, testSupport, strings.TrimPrefix(i, module), "%s is not a test", name)
			for library, owner := range alone {
				if strings.HasPrefix(i, library) && !support {
					require.Equal(t, owner, name, "only %s imports %s", owner, library)
				}
			}
		}
	}
	require.GreaterOrEqual(t, seen, 6)
}
