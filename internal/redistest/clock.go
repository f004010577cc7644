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

// OwnClocks gives each server a clock that StepClock can set. It needs a C compiler.
func OwnClocks(t testing.TB) Option {
	t.Helper()
	dir := t.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	require.NoError(t, os.WriteFile(source, clockSource, 0o600))
	out, err := exec.Command("gcc", "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput() // #nosec G204 -- the test's own arguments
	require.NoError(t, err, "gcc must be installed: make test does it\n%s", out)
	return func(s *Server) {
		s.clock = filepath.Join(t.TempDir(), "offset")
		s.StepClock(0)
		s.env = append(s.env, "LD_PRELOAD="+library, "CLOCK_OFFSET_FILE="+s.clock)
	}
}

// StepClock sets the server's clock ahead of the machine's. The change is immediate.
func (s *Server) StepClock(ahead time.Duration) {
	s.t.Helper()
	f, err := os.OpenFile(s.clock, os.O_CREATE|os.O_WRONLY, 0o600)
	require.NoError(s.t, err)
	_, err = f.Write(binary.NativeEndian.AppendUint64(nil, uint64(ahead)))
	require.NoError(s.t, err)
	require.NoError(s.t, f.Close())
}
