package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/rlproxy/rlproxy/tests/traffic"
)

// Server is a redis-server or an rlproxy.
type Server struct {
	Port     int // port of 127.0.0.1 on which it listens
	HTTPPort int // http-port of an rlproxy, if its metrics are to be read; else 0

	argv  []string      // the command and its arguments
	cmd   *exec.Cmd     // the process; nil if it was never launched
	out   bytes.Buffer  // the output of the process
	ended chan struct{} // closed when the process has ended
}

// Address returns the address on which the server listens.
func (s *Server) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)) }

// Launched reports whether the server was ever launched.
func (s *Server) Launched() bool { return s.cmd != nil }

// PID returns the process ID of a server that was launched.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Output returns what the process has written. The process must have ended.
func (s *Server) Output() string { return s.out.String() }

// Launch runs the process and waits until it answers. A server that has been stopped can be launched again.
func (s *Server) Launch(ctx context.Context) error {
	s.out.Reset()
	cmd, ended := exec.Command(s.argv[0], s.argv[1:]...), make(chan struct{}) // #nosec G204 -- our own
	cmd.Stdout, cmd.Stderr = &s.out, &s.out
	if err := cmd.Start(); err != nil {
		return err
	}
	s.cmd, s.ended = cmd, ended
	go func() { // ends with the process, which Stop ends
		_ = cmd.Wait() // its output says how it ended
		close(ended)
	}()
	for range 2000 {
		if _, err := traffic.Ask(s.Address(), "PING"); err == nil {
			return nil
		}
		select {
		case <-ended:
			return fmt.Errorf("%s ended: %s", s.argv[0], s.out.String())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s does not answer", s.argv[0])
}

// Signal sends a signal to the process if it has not ended.
func (s *Server) Signal(sig os.Signal) {
	_ = s.cmd.Process.Signal(sig) // it fails if the process has ended
}

// Stop ends the process with SIGTERM, or with SIGKILL if it has not ended after 5 s.
func (s *Server) Stop() {
	if s.cmd == nil {
		return
	}
	s.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(5 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}
