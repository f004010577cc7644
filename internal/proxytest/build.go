// Package proxytest starts rlproxy processes for tests, on free ports, and talks to them in plain RESP.
package proxytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Binary is the path of the rlproxy under test. Main builds it once, with the race detector if the tests use it.
var Binary string

// Main builds the package in folder as Binary and runs the tests. It returns the exit code for TestMain.
func Main(m *testing.M, folder string) int {
	dir, err := os.MkdirTemp("", "rlproxy-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // files left in a temporary folder do no harm
	Binary = filepath.Join(dir, "rlproxy")
	args := []string{"build", "-o", Binary}
	if Race {
		args = append(args, "-race")
	}
	// #nosec G204 -- the test's own arguments
	if out, err := exec.Command("go", append(args, folder)...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building rlproxy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// BuildStatic builds the package in folder as make build does, without cgo and without the race
// detector, so that both share the build cache.
func BuildStatic(out, folder string) error {
	cmd := exec.Command("go", "build", "-trimpath", "-o", out, folder) // #nosec G204 -- the test's own arguments
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building rlproxy: %w\n%s", err, said)
	}
	return nil
}
