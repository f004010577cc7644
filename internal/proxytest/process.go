package proxytest

import (
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Patience is the time limit for events that should happen at once. It is long enough for a busy machine.
const Patience = 20 * time.Second

// Process is a program that a test started.
type Process struct {
	Cmd    *exec.Cmd
	Output *LockedBuffer // standard output and standard error
	exited chan struct{} // closed once the process has ended
}

// Spawn starts a program that is killed when the test ends. If the test fails, its output is logged.
func Spawn(t testing.TB, name string, args ...string) *Process {
	t.Helper()
	// #nosec G204 -- the test's own arguments
	p := &Process{Cmd: exec.Command(name, args...), Output: new(LockedBuffer), exited: make(chan struct{})}
	p.Cmd.Stdout, p.Cmd.Stderr = p.Output, p.Output
	if Race {
		// Without this a process with the race detector sleeps for a second before it exits.
		p.Cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	}
	require.NoError(t, p.Cmd.Start())
	go func() { // ends with the process, which the cleanup kills
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

// Kill kills the process with SIGKILL and waits for its end.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.exited
}

// Signal sends a signal.
func (p *Process) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.Cmd.Process.Signal(sig))
}

// Exit waits for the end of the process and returns its exit code, or -1 if a signal ended it.
func (p *Process) Exit(t testing.TB) int {
	t.Helper()
	select {
	case <-p.exited:
	case <-time.After(Patience):
		p.Signal(t, syscall.SIGQUIT) // makes Go print the stacks of its goroutines
		<-p.exited
		require.Fail(t, "the process did not end", "%s\n%s", p.Cmd, p.Output)
	}
	return p.Cmd.ProcessState.ExitCode()
}

// Stop ends an rlproxy with SIGTERM and requires that it exits cleanly.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Signal(t, syscall.SIGTERM)
	require.Zero(t, p.Exit(t), "%s", p.Output)
	require.NotContains(t, p.Output.String(), "DATA RACE")
}

// Running reports whether the process is still running.
func (p *Process) Running() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// Eventually waits until done returns true. what names the event in the failure message. At first
// it calls done every ms, and later less often, to leave the machine to the event that it waits for.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	for began := time.Now(); !done(); {
		waited := time.Since(began)
		require.Less(t, waited, Patience, "timed out waiting for %s", what)
		time.Sleep(min(time.Millisecond+waited/20, 20*time.Millisecond))
	}
}
