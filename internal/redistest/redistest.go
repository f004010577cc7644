// Package redistest starts redis-server processes for tests, on free ports and in
// temporary folders, and stops them when the test ends.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/freeport"
	"github.com/stretchr/testify/require"
)

// Server is one running redis-server.
type Server struct {
	Addr   string        // 127.0.0.1:port
	Port   int           // port of Addr
	Secure string        // 127.0.0.1:port for TLS; empty without the option TLS
	Client *redis.Client // a client without TLS, for the test's own commands

	t     testing.TB
	args  []string      // command-line arguments
	env   []string      // additional environment variables
	clock string        // the file that sets the server's clock; empty without OwnClocks
	cmd   *exec.Cmd     // the process
	out   *bytes.Buffer // output of the process
}

// replyWithin is how long Client waits for replies. On a busy machine a long pipeline takes seconds.
const replyWithin = time.Minute

// Option changes a server before it is started.
type Option func(s *Server)

// Arguments adds command-line arguments. They override earlier ones.
func Arguments(args ...string) Option {
	return func(s *Server) { s.args = append(s.args, args...) }
}

// Start runs a redis-server without persistence. args are additional command-line
// arguments. The server is stopped when the test ends.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, nil, args...)
}

func start(t testing.TB, options []Option, args ...string) *Server {
	t.Helper()
	port := FreePort(t)
	s := &Server{Addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), Port: port, t: t}
	s.args = append([]string{
		"--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", t.TempDir(),
		"--save", "", "--appendonly", "no",
	}, args...)
	for _, option := range options {
		option(s)
	}
	s.launch(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: replyWithin})
	return s
}

// launch runs the server until the test ends.
func (s *Server) launch(client *redis.Options) {
	s.t.Helper()
	s.Client = redis.NewClient(client)
	s.t.Cleanup(func() {
		_ = s.Client.Close()
		s.Kill()
		if s.t.Failed() {
			s.t.Logf("output of redis-server %v:\n%s", s.args, s.out)
		}
	})
	s.Run()
}

// URL returns the server's URL as a backend.
func (s *Server) URL() string { return "redis://" + s.Addr }

// Run starts the server, or restarts it after Kill, and waits until it answers.
func (s *Server) Run() {
	s.t.Helper()
	s.out = new(bytes.Buffer)
	s.cmd = exec.Command("redis-server", s.args...) // #nosec G204 -- the test's own arguments
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	s.cmd.Env = append(os.Environ(), s.env...)
	require.NoError(s.t, s.cmd.Start(), "redis-server must be installed: make test does it")
	require.Eventually(s.t, func() bool {
		return s.Client.Ping(context.Background()).Err() == nil
	}, 20*time.Second, 5*time.Millisecond, "redis-server does not answer")
}

// Ask sends one command and returns its reply as text.
func (s *Server) Ask(args ...any) (string, error) {
	cmd := redis.NewCmd(context.Background(), args...)
	err := s.Client.Process(context.Background(), cmd)
	return fmt.Sprint(cmd.Val()), err
}

// Do is like Ask, but an error fails the test.
func (s *Server) Do(args ...any) string {
	s.t.Helper()
	reply, err := s.Ask(args...)
	require.NoError(s.t, err, "%v", args)
	return reply
}

// FailSaves makes the server fail to save its data. From then on it refuses writes with MISCONF.
func (s *Server) FailSaves() {
	s.t.Helper()
	folder := s.Client.ConfigGet(context.Background(), "dir").Val()["dir"]
	require.NoError(s.t, os.MkdirAll(filepath.Join(folder, "dump.rdb", "in the way"), 0o700))
	s.Do("CONFIG", "SET", "save", "3600 1")
	s.Do("BGSAVE")
	require.Eventually(s.t, func() bool {
		return strings.Contains(s.Do("INFO", "persistence"), "rdb_last_bgsave_status:err")
	}, 20*time.Second, 5*time.Millisecond, "a save does not fail")
}

// Kill kills the server with SIGKILL.
func (s *Server) Kill() {
	if s.cmd != nil && s.cmd.ProcessState == nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}
}

// Pause suspends the process, and returns once it is suspended. The process keeps its connections but answers nothing.
func (s *Server) Pause() {
	s.t.Helper()
	require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGSTOP))
	var status syscall.WaitStatus
	_, err := syscall.Wait4(s.cmd.Process.Pid, &status, syscall.WUNTRACED, nil)
	require.NoError(s.t, err)
	require.True(s.t, status.Stopped())
}

// Resume continues a paused process.
func (s *Server) Resume() { require.NoError(s.t, s.cmd.Process.Signal(syscall.SIGCONT)) }

// FreePort returns a TCP port of 127.0.0.1 for a server of the test. No other test gets it.
func FreePort(t testing.TB) int {
	t.Helper()
	port, err := freeport.Take()
	require.NoError(t, err)
	return port
}
