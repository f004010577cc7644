package tests

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// startIntoPipe starts a proxy whose log goes to a named pipe, and reads it until the proxy listens.
func startIntoPipe(t *testing.T, args ...string) (p *proxytest.Process, addr, pipe string, log *os.File) {
	t.Helper()
	pipe = filepath.Join(t.TempDir(), "log")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	log, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = log.Close() })
	p = spawn(t, "sh", append([]string{"-c", `pipe=$1; shift; exec "$@" >"$pipe"`, "sh", pipe, proxytest.Binary, "--bind", "127.0.0.1", "--port", "0"}, args...)...)
	var seen []byte
	eventually(t, "rlproxy", func() bool {
		buf := make([]byte, 4096)
		n, _ := log.Read(buf) // at first the pipe has no writer
		seen = append(seen, buf[:n]...)
		if m := regexp.MustCompile(`msg=listening address=(\S+)\n`).FindSubmatch(seen); m != nil {
			addr = string(m[1])
		}
		return addr != "" || !p.Running()
	})
	require.NotEmpty(t, addr, "%s", seen)
	return p, addr, pipe, log
}

func TestReaderOfTheLogMayEnd(t *testing.T) {
	t.Parallel()
	p, addr, _, log := startIntoPipe(t, "--requirepass", "hush")
	require.NoError(t, log.Close())
	c := dial(t, addr)
	require.Contains(t, c.do(t, "AUTH", "wrong"), "WRONGPASS") // which is logged
	require.Equal(t, proxytest.Status("OK"), c.do(t, "AUTH", "hush"))
	p.Stop(t)
}

// A reader of the log that stalls delays neither clients nor the end of the process.
func TestNothingWaitsForTheReaderOfTheLog(t *testing.T) {
	t.Parallel()
	p, addr, pipe, log := startIntoPipe(t, "--requirepass", "hush")
	filler, err := os.OpenFile(pipe, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = filler.Close() }) // also if the test fails
	control, err := filler.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, control.Write(func(fd uintptr) bool {
		for err == nil { // until the pipe is full
			_, err = syscall.Write(int(fd), bytes.Repeat([]byte{'\n'}, 4096)) // #nosec G115 -- a file descriptor
		}
		return true
	}))
	require.ErrorIs(t, err, syscall.EAGAIN)
	c := dial(t, addr)
	require.Contains(t, c.do(t, "AUTH", "wrong"), "WRONGPASS") // which is logged
	require.Equal(t, proxytest.Status("OK"), c.do(t, "AUTH", "hush"))
	p.Stop(t)
	require.NoError(t, filler.Close())
	rest, err := io.ReadAll(log)
	require.NoError(t, err)
	require.NotContains(t, string(rest), "stopped")
}

// A log that cannot be written is an error of the start and of the check, which leaves no file.
func TestLogThatCannotBeWrittenPreventsTheStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pipe := filepath.Join(folder, "pipe") // without a reader
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	for path, why := range map[string]string{
		folder: "can't write the logfile: open " + folder + ": is a directory",
		pipe:   "can't write the logfile: open " + pipe + ": no such device or address",
	} {
		for _, check := range [][]string{nil, {"--check"}} {
			code, out := outcome(t, append([]string{"--port", "0", "--logfile", path}, check...)...)
			require.Equal(t, 1, code, out)
			require.Equal(t, "rlproxy: "+why+"\n", out)
		}
	}
	fresh := filepath.Join(folder, "log")
	code, out := outcome(t, "--logfile", fresh, "--check")
	require.Zero(t, code, out)
	require.NoFileExists(t, fresh)
}
