package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// serverTime bounds how long a server may take to answer, and to stop.
const serverTime = 30 * time.Second

// server is an rlproxy or a redis-server on a port of its own.
type server struct {
	port int
	argv []string
	log  logBuffer
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

func startProxy(args ...string) (*server, error) {
	argv := append([]string{"bin/rlproxy", "--bind", "127.0.0.1"}, args...)
	return start(argv)
}

func startRedis(args ...string) (*server, error) {
	argv := []string{"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"}
	return start(append(argv, args...))
}

// start runs a server on a free port.
func start(argv []string) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &server{port: port, argv: append(argv, "--port", strconv.Itoa(port))}
	return s, s.launch()
}

// nextPort is the port that freePort tries next. It starts at a number that other runs
// at the same time are unlikely to use.
var nextPort atomic.Int64

func init() { nextPort.Store(int64(os.Getpid()) * 97) }

// freePort returns a port that is free, a different one each time. It is below the
// ports that systems give to outgoing connections, so that it is still free at a restart.
func freePort() (int, error) {
	for range 1000 {
		port := 20_000 + int(nextPort.Add(1)%12_000)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, l.Close()
		}
	}
	return 0, errors.New("no free port between 20000 and 32000")
}

func (s *server) address() string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
}

// launch starts the process and returns when it answers.
func (s *server) launch() error {
	s.cmd = exec.Command(s.argv[0], s.argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = &s.log, &s.log
	if err := s.cmd.Start(); err != nil {
		return err
	}
	s.done = make(chan struct{})
	go func(cmd *exec.Cmd, done chan struct{}) { // ends with the process, which stop ends
		_ = cmd.Wait() // the log shows how the process ended
		close(done)
	}(s.cmd, s.done)
	for deadline := time.Now().Add(serverTime); time.Now().Before(deadline); {
		if answers(s.address()) {
			return nil
		}
		select {
		case <-s.done:
			return fmt.Errorf("%s ended: %s", s.argv[0], s.log.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	return errors.Join(fmt.Errorf("%s does not answer: %s", s.argv[0], s.log.String()), s.stop())
}

// answers reports whether a PING gets any reply, an error included.
func answers(address string) bool {
	c, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if c.SetDeadline(time.Now().Add(time.Second)) != nil {
		return false
	}
	if _, err := c.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	n, err := c.Read(make([]byte, 64))
	return err == nil && n > 0
}

// stop ends the process with SIGTERM. If that does not suffice, it kills the process and
// returns an error.
func (s *server) stop() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // fails when it has ended already
	select {
	case <-s.done:
		return nil
	case <-time.After(serverTime):
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	return fmt.Errorf("%s did not stop on SIGTERM: %s", s.argv[0], s.log.String())
}

// freeze stops the process and returns once all of its threads have stopped. SIGCONT
// continues it.
func (s *server) freeze() error {
	if err := s.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	for deadline := time.Now().Add(serverTime); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		still, err := s.still()
		if still || err != nil {
			return err
		}
	}
	return fmt.Errorf("%s did not stop on SIGSTOP", s.argv[0])
}

// still reports whether every thread of the process is stopped.
func (s *server) still() (bool, error) {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", s.cmd.Process.Pid))
	if err != nil {
		return false, err
	}
	for _, stat := range threads {
		text, err := os.ReadFile(stat)
		if err != nil {
			return false, err
		}
		if !bytes.Contains(text, []byte(") T ")) { // the state follows the thread's name
			return false, nil
		}
	}
	return len(threads) > 0, nil
}

func (s *server) restart() error {
	if err := s.stop(); err != nil {
		return err
	}
	return s.launch()
}

// logBuffer keeps the output of a process, which both of its streams write at the same time.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
