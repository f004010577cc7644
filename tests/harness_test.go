// Package tests holds rlproxy to its contract from outside: the real binary, real
// redis-servers, real clients. Nothing of rlproxy itself is imported here.
//
// Reading order: harness_test.go (processes), servers_test.go (nodes and
// proxies), wire_test.go (a client that hides nothing), then the tests by subject.
package tests

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// binary is the rlproxy under test, built once by TestMain. It has the race
// detector when the tests have it.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "rlproxy-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }() // left-overs in a temporary folder harm nobody
	binary = filepath.Join(dir, "rlproxy")
	args := []string{"build", "-o", binary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "../cmd/rlproxy")...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "building rlproxy: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// patience is how long anything that should happen at once may take on a busy
// machine.
const patience = 20 * time.Second

// process is a program that a test started.
type process struct {
	cmd    *exec.Cmd
	output *output
	exited chan struct{} // closed once it has ended
}

// spawn starts a program, which is killed when the test ends. Its output is shown
// if the test fails.
func spawn(t *testing.T, name string, args ...string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(name, args...), output: new(output), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = p.output, p.output
	require.NoError(t, p.cmd.Start())
	go func() { // ends with the process, which the clean-up kills
		_ = p.cmd.Wait() // the exit code is read from ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.exited
		if t.Failed() {
			t.Logf("output of %s %v:\n%s", name, args, p.output)
		}
	})
	return p
}

// signal sends a signal.
func (p *process) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
}

// exit waits for the end and returns the exit code; -1: a signal ended it.
func (p *process) exit(t *testing.T) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(patience):
		p.signal(t, syscall.SIGQUIT) // which has Go print what its goroutines are at
		<-p.exited
		require.Fail(t, "the process did not end", "%s\n%s", p.cmd, p.output)
	}
	return p.cmd.ProcessState.ExitCode()
}

// running tells whether the process has not ended yet.
func (p *process) running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// output collects what a process prints.
type output struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

// Write is called by the goroutine that copies the process's output.
func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// eventually asks again and again until done says so.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain for %s", what)
	}
}
