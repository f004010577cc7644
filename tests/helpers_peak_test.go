package tests

import (
	"bytes"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

var peak = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// peakMB returns the largest resident memory that a process has had so far, in MB.
func peakMB(t *testing.T, pid int) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	found := peak.FindSubmatch(bytes.TrimSpace(text))
	require.NotNil(t, found)
	kB, err := strconv.Atoi(string(found[1]))
	require.NoError(t, err)
	t.Logf("peak %d MB", kB>>10)
	return kB >> 10
}
