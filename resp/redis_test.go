package resp

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// redisServer starts a real redis-server on a Unix socket of its own and returns
// the socket's path.
func redisServer(t *testing.T, args ...string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "resp") // a Unix socket's path is short
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	cmd := exec.Command("redis-server", append([]string{
		"--port", "0", "--unixsocket", socket, "--dir", dir, "--save", "", "--daemonize", "no"}, args...)...)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Kill())
		_ = cmd.Wait() // says that it was killed
	})
	require.Eventually(t, func() bool {
		conn, err := net.Dial("unix", socket)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}, 10*time.Second, 5*time.Millisecond)
	return socket
}

// converse sends text, closes the sending side and returns all that comes back.
// Redis closes without reading the rest of what it refused, and resets the
// connection thereby, after its reply has arrived on a Unix socket: resets says
// that this is in order.
func converse(t *testing.T, network, addr, text string, resets bool) string {
	t.Helper()
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(10*time.Second)))
	inOrder := func(err error) bool {
		return err == nil || resets && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE))
	}
	_, err = io.WriteString(conn, text)
	require.True(t, inOrder(err), "%v", err)
	err = conn.(interface{ CloseWrite() error }).CloseWrite()
	require.True(t, inOrder(err), "%v", err)
	reply, err := io.ReadAll(conn)
	require.True(t, inOrder(err), "%v", err)
	return string(reply)
}

// likeRedis answers the commands of the corpus as Redis does.
func likeRedis(s *Session, pipeline []Command) {
	for _, cmd := range pipeline {
		name := strings.ToUpper(string(cmd[0]))
		switch {
		case name == "AUTH":
			s.Trusted = true
			s.Out = AppendSimple(s.Out, "OK")
		case !s.Trusted && (name == "PING" && len(cmd) == 1 || name == "ECHO" && len(cmd) == 2):
			s.Out = AppendError(s.Out, "NOAUTH Authentication required.")
		case name == "PING" && len(cmd) == 1:
			s.Out = AppendSimple(s.Out, "PONG")
		case name == "ECHO" && len(cmd) == 2:
			s.Out = AppendBulk(s.Out, cmd[1])
		case name == "QUIT":
			s.Out = AppendSimple(s.Out, "OK")
			s.CloseAfterReply()
			return
		case name == "ECHO" || name == "PING":
			s.Out = AppendError(s.Out, "ERR wrong number of arguments for '"+strings.ToLower(name)+"' command")
		default:
			msg := "ERR unknown command '" + string(cmd[0]) + "', with args beginning with: "
			for _, arg := range cmd[1:] {
				msg += "'" + string(arg) + "' "
			}
			s.Out = AppendError(s.Out, msg)
		}
	}
}

// What a client gets for any bytes is what a real Redis sends, byte for byte.
func TestSameAsRedis(t *testing.T) {
	open := redisServer(t)
	locked := redisServer(t, "--requirepass", "secret")
	_, ours := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	_, oursLocked := start(t, Config{}, handlerFuncs{serve: likeRedis})
	same := func(redis, rlproxy, text string) {
		want, got := converse(t, "unix", redis, text, true), converse(t, "tcp", rlproxy, text, false)
		if want != got {
			require.Fail(t, "not what Redis answers", "to %.200q: %.200q, want %.200q", text, got, want)
		}
	}
	for _, text := range append([]string{
		"PING\r\nQUIT\r\nPING\r\n",
		"*1\r\n$4\r\nPING\r\n*2\r\n$4\r\nECHO\r\n$3\r\na\rb\r\n*1\r\n$1\r\n\xff\r\n",
		"*1\r\n\x80\r\n", "x\xffy \xfe\r\n",
	}, corpus...) {
		same(open, ours, text)
		same(locked, oursLocked, text)
	}
	same(open, ours, strings.Repeat("PING\r\n", 5000))
	same(open, ours, strings.Repeat("*1\r\n$4\r\nPING\r\n", 5000)+"*x\r\n")
	same(locked, oursLocked, "AUTH secret\r\n*11\r\n"+strings.Repeat("$4\r\nECHO\r\n", 11))
	same(locked, oursLocked, "*2\r\n$4\r\nAUTH\r\n$6\r\nsecret\r\n"+
		"*2\r\n$4\r\nECHO\r\n$20000\r\n"+strings.Repeat("x", 20_000)+"\r\n")
}

// redis-cli --pipe ends its data with an empty line and an ECHO, and waits for that.
func TestRedisCLIPipe(t *testing.T) {
	_, addr := start(t, Config{}, handlerFuncs{open: trust, serve: likeRedis})
	host, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cmd := exec.Command("redis-cli", "-h", host, "-p", port, "--pipe")
	cmd.Stdin = strings.NewReader(strings.Repeat("*1\r\n$4\r\nPING\r\n", 100_000))
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "errors: 0, replies: 100000")
}
