package tests

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// peakMB returns the largest resident memory that a process has had so far, in MB.
func peakMB(t *testing.T, pid int) int {
	t.Helper()
	mb := memoryMB(t, pid, "VmHWM")
	t.Logf("peak %d MB", mb)
	return mb
}

// residentMB returns the resident memory of a process, in MB.
func residentMB(t *testing.T, pid int) int {
	t.Helper()
	return memoryMB(t, pid, "VmRSS")
}

// memoryMB returns a line of a process's status, in MB.
func memoryMB(t *testing.T, pid int, name string) int {
	t.Helper()
	return memoryKB(t, pid, name) >> 10
}

// memoryKB returns a line of a process's status, in KB.
func memoryKB(t *testing.T, pid int, name string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := regexp.MustCompile(name + `:\s+(\d+) kB`).FindSubmatch(text)
	require.NotNil(t, found)
	kB, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	return kB
}
