package proxytest

import (
	"bytes"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience is how long anything that should happen at once may take on a busy
// machine.
const Patience = 20 * time.Second

// Process is a program that a test started.
type Process struct {
	Cmd    *exec.Cmd
	Output *Output
	exited chan struct{} // closed once it has ended
}

// Spawn starts a program, which is killed when the test ends. Its output is shown
// if the test fails.
func Spawn(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	p := &Process{Cmd: exec.Command(name, args...), Output: new(Output), exited: make(chan struct{})} // #nosec G204 -- a test's own
	p.Cmd.Stdout, p.Cmd.Stderr = p.Output, p.Output
	require.NoError(t, p.Cmd.Start())
	go func() { // ends with the process, which the clean-up kills
		_ = p.Cmd.Wait() // the exit code is read from ProcessState
		close(p.exited)
	}()
	t.Cleanup(func() {
		p.Kill()
		if t.Failed() {
			t.Logf("output of %s %v:\n%s", name, args, p.Output)
		}
	})
	return p
}

// Kill ends the process at once, as kill -9 does, if it has not ended.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.exited
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(sig))
}

// Exit waits for the end and returns the exit code; -1: a signal ended it.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(Patience):
		p.Signal(t, syscall.SIGQUIT) // which has Go print what its goroutines are at
		<-p.exited
		require.Fail(t, "the process did not end", "%s\n%s", p.Cmd, p.Output)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Stop asks an rlproxy to end, and holds that it did so cleanly.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%s", p.Output)
	require.NotContains(t, p.Output.String(), "DATA RACE")
}

// Running tells whether the process has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Output collects what a process prints.
type Output struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

// Write is called by the goroutine that copies the process's output.
func (o *Output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.Write(b)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.bytes.String()
}

// Eventually asks again and again until done says so.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !done(); time.Sleep(time.Millisecond) {
		require.True(t, time.Now().Before(deadline), "waited in vain for %s", what)
	}
}
