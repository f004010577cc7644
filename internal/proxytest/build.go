// Package proxytest starts real rlproxies for tests and speaks to them on the wire:
// processes on free ports, waited for until they listen, and connections that hide
// nothing.
package proxytest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Binary is the rlproxy under test, built once by Main. It has the race detector
// when the tests have it.
var Binary string

// Main builds rlproxy out of its package's folder and runs the tests. It returns the
// exit code for TestMain.
func Main(m *testing.M, folder string) int {
	dir, err := os.MkdirTemp("", "rlproxy-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // left-overs in a temporary folder harm nobody
	Binary = filepath.Join(dir, "rlproxy")
	args := []string{"build", "-o", Binary}
	if Race {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, folder)...).CombinedOutput(); err != nil { // #nosec G204 -- a test's own
		fmt.Fprintf(os.Stderr, "building rlproxy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}
