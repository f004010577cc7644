package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

//go:embed testdata/clock.c
var clockSource []byte

// OwnClocks gives each server a clock of its own, which StepClock and StopClock set. It needs gcc.
func OwnClocks(t testing.TB) Option {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	require.NoError(t, os.WriteFile(source, clockSource, 0o600))
	// #nosec G204 -- the test's own arguments
	out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	require.NoError(t, err, "gcc must be installed: make test does it\n%s", out)
	return func(s *Server) {
		s.clock = filepath.Join(t.TempDir(), "clock")
		s.StepClock(0)
		s.env = append(s.env, "LD_PRELOAD="+library, "CLOCK_FILE="+s.clock)
	}
}

// StartClocked is Start with OwnClocks.
func StartClocked(t testing.TB) *Server {
	t.Helper()
	return start(t, []Option{OwnClocks(t)})
}

// StepClock sets the server's clock ahead of the machine's, or back if ahead is negative. The change is immediate.
func (s *Server) StepClock(ahead time.Duration) {
	s.t.Helper()
	s.setClock(ahead.Nanoseconds(), 0)
}

// StopClock stops the server's clock at a time, until it is set again. The change is immediate. The
// server's monotonic clock continues to run.
func (s *Server) StopClock(at time.Time) {
	s.t.Helper()
	s.setClock(0, at.UnixNano())
}

// setClock writes the two numbers that testdata/clock.c reads.
func (s *Server) setClock(shift, stopped int64) {
	s.t.Helper()
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = f.Write(binary.NativeEndian.AppendUint64(binary.NativeEndian.AppendUint64(nil, uint64(shift)),
		uint64(stopped)))
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
}
