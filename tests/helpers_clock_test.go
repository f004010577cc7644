package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// stepper is a file more of cmd/rlproxy: signals set the wall clock 3 s ahead or back.
const stepper = `package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

func init() {
	steps := make(chan os.Signal, 1)
	signal.Notify(steps, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for s := range steps {
			if s == syscall.SIGUSR1 {
				time.Ahead.Add(3)
			} else {
				time.Ahead.Add(-3)
			}
		}
	}()
}
`

// buildWithClock builds an rlproxy whose wall clock can be set, apart from the machine's: SIGUSR1 sets it 3 s ahead, and
// SIGUSR2 3 s back. A Go program reads the clock without a library that could be replaced, so the package time is.
func buildWithClock(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	file := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	require.Contains(t, string(text), reads, "another version of Go")
	changed := strings.Replace(string(text), reads, "var Ahead atomic.Int64\n\n"+reads+"\tsec += Ahead.Load()\n", 1)
	changed = strings.Replace(changed, "\t\"math/bits\"\n", "\t\"math/bits\"\n\t\"sync/atomic\"\n", 1)

	dir := t.TempDir()
	more, err := filepath.Abs("../cmd/rlproxy/stepper.go")
	require.NoError(t, err)
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{
		file: write(t, "time.go", changed), more: write(t, "stepper.go", stepper)}})
	require.NoError(t, err)
	binary := filepath.Join(dir, "rlproxy")
	// #nosec G204 -- the test's own arguments
	out, err := exec.Command("go", "build", "-overlay", write(t, "overlay.json", string(overlay)), "-o", binary, "../cmd/rlproxy").CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}
