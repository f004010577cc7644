package tests

import (
	"bytes"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// outcome runs rlproxy until it exits by itself, and returns its exit code and output.
func outcome(t *testing.T, args ...string) (code int, output string) {
	t.Helper()
	p := spawn(t, proxytest.Binary, args...)
	return p.Exit(t), p.Output.String()
}

// write makes a file in a folder of the test and returns its path.
func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestHelpAndVersionArePrinted(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--help", "-h"} {
		code, out := outcome(t, flag)
		require.Zero(t, code)
		require.Contains(t, out, "usage: rlproxy [file.conf ...] [--directive value ...]")
		require.Contains(t, out, "backend-timeout")
	}
	for _, flag := range []string{"--version", "-v"} {
		code, out := outcome(t, flag)
		require.Zero(t, code)
		require.Regexp(t, `^rlproxy `+regexp.QuoteMeta(versionOf(t))+` \(\S+, go\S.*\)\n$`, out)
	}
}

func TestConfigurationErrorsAreOneSentence(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ content, want string }{
		{"port 1\nprot 2\n", `a.conf:2: unknown directive "prot"; rlproxy --help lists the directives`},
		{"\n\nport many\n", `a.conf:3: port must be an integer from 0 to 65535; it was "many"`},
		{"loglevel loud\n", `a.conf:1: loglevel must be debug, verbose, notice or warning; it was "loud"`},
		{"requirepass \"open\n", `a.conf:1: unbalanced quotes`},
		{"backend memcached://user:hush@h\n", `a.conf:1: backend must be a URL such as redis://127.0.0.1:6379`},
		{"backend redis://h:1\nbackend redis://H:1/0\n", `listed twice`},
		{"policy api SLIDE 5 60\npolicy-override api a*b 1 60\n", `a.conf:2: policy-override: pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was 'a*b'`},
		{"policy-override api a 1 60\npolicy api SLIDE 5 60\n", `a.conf:1: policy-override: no such policy 'api' in the preceding lines`},
	} {
		path := write(t, "a.conf", c.content)
		for _, args := range [][]string{{path}, {path, "--check"}} {
			code, out := outcome(t, args...)
			require.Equal(t, 1, code, c.content)
			require.Contains(t, out, c.want)
			require.Equal(t, 1, strings.Count(out, "\n"), "one sentence: %s", out)
			require.NotContains(t, out, "hush")
		}
	}
	code, out := outcome(t, "--port", "1", "--backend-timeout", "1s")
	require.Equal(t, 1, code)
	require.Equal(t, "rlproxy: command line: backend-timeout must be milliseconds, an integer from 1 to 60000; it was \"1s\"\n", out)
	code, out = outcome(t, filepath.Join(t.TempDir(), "missing.conf"))
	require.Equal(t, 1, code)
	require.Contains(t, out, "can't read the configuration: open ")
}

// Both --check and a start refuse settings that cannot work.
func TestSettingsThatCannotWorkAreRefused(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	file := write(t, "file", "")
	for content, want := range map[string]string{
		"unixsocket " + file + "\nport 0":                         "can't listen on " + file + ": there is a file that is not a socket",
		`bind ""`:                                                 "nothing to listen on: bind or unixsocket must name something",
		"port 7000\ntls-port 7000":                                "port and tls-port must differ; both are 7000",
		"port 7001\nrls-port 7001":                                "rls-port must differ from port, tls-port and http-port; it is 7001",
		"bind \"\"\nunixsocket s\nrls-port 7001":                  "rls-port needs an address to listen on: bind must name one",
		"rls-headers a b":                                         "rls-headers must be no, yes, or the names of three headers",
		"rls-headers a b c:":                                      "rls-headers must be no, yes, or the names of three headers",
		"backend redis://h:99999":                                 "a.conf:1: backend must be a URL such as ",
		"backend redis://h:6379/-1":                               "with ports from 1 to 65535 and databases from 0",
		"client-query-buffer-limit 1mb":                           "client-query-buffer-limit 1048576 must be at least proto-max-bulk-len, which is 67108864",
		"maxmemory-clients 64mb\nclient-query-buffer-limit 128mb": "maxmemory-clients 67108864 must be at least client-query-buffer-limit, which is 134217728",
		"client-output-buffer-limit normal 256mb 0 0\nmaxmemory-clients 64mb": "maxmemory-clients 67108864 must be at least client-output-buffer-limit, which is 268435456",
		"unixsocket " + folder + "/none/s\nport 0":                            "/none",
		"logfile " + folder + "/none/log\nport 0":                             "/none",
		"unixsocket " + folder + "/a/s\nlogfile " + folder + "/b/log":         "/b",
		"decision-log " + folder + "/none/log\nport 0":                        "can't write the decision-log: open " + folder + "/none/log: no such file or directory",
		"decision-log " + folder + "\nport 0":                                 "can't write the decision-log: open " + folder + ": is a directory",
		"shutdown-timeout 0":                                                  "shutdown-timeout must be seconds, an integer from 1 to ",
		"decision-log /x/log\nlogfile /x/log":                                 "logfile and decision-log must differ; both are /x/log",
		"unixsocket /dev/null/s\nport 0":                                      "/dev/null/s",
		"unixsocket " + folder + "/" + strings.Repeat("s", 108):               "a.conf:1: unixsocket must be a path of at most 107 bytes; it was",
	} {
		path := write(t, "a.conf", content+"\n")
		for _, args := range [][]string{{path}, {path, "--check"}} {
			code, out := outcome(t, args...)
			require.Equal(t, 1, code, "%s\n%s", content, out)
			require.Contains(t, out, want)
		}
	}
	for _, content := range []string{
		"bind \"\"\nunixsocket " + folder + "/s",
		"unixsocket " + folder + "/s\nlogfile " + folder + "/log\ndecision-log " + folder + "/decisions",
		"maxmemory-clients 64mb",
		"port 0\nmaxmemory-clients 64mb\nclient-query-buffer-limit 64mb\nclient-output-buffer-limit normal 64mb 0 0",
		"backend redis://h:65535/15",
	} {
		code, out := outcome(t, write(t, "a.conf", content+"\n"), "--check")
		require.Zero(t, code, "%s\n%s", content, out)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left, "--check leaves no file behind")
}

func TestCheckStartsNothing(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	path := write(t, "a.conf", "bind 127.0.0.1\nport "+port+"\n")

	code, out := outcome(t, path, "--check")
	require.Zero(t, code)
	require.Equal(t, "configuration is valid\n", out)

	code, out = outcome(t, path) // shows that the port was in use, which --check did not notice
	require.Equal(t, 1, code)
	require.Contains(t, out, "address already in use")

	code, out = outcome(t, "../rlproxy.conf", "--check")
	require.Zero(t, code, out)
}

// The first line has the version and the sizes, also if there is more to log before clients are served:
// here the policies that are read from the node.
func TestLogBeginsWithVersionAndSizes(t *testing.T) {
	t.Parallel()
	args := backends(startNodes(t, 1)...)
	dial(t, startProxy(t, args...).addr).setPolicy(t, "api SLIDE 5 60")
	out := startProxy(t, args...).Output.String()
	require.Contains(t, out, "loaded the stored policies")
	require.Regexp(t, `^time=\S+ level=notice msg=starting version=\S+ build=.* maxmemory=\d+ maxmemory-clients=\d+\n`, out)
}

func TestListensOnAddressesAndAUnixSocket(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	args := []string{"--unixsocket", socket, "--unixsocketperm", "700", "--bind", "127.0.0.1", "127.0.0.2"}
	p := startProxy(t, args...)
	eventually(t, "the Unix socket", func() bool { return strings.Contains(p.Output.String(), socket) })
	require.Len(t, regexp.MustCompile(`msg=listening address=127\.0\.0\.[12]:`+port(t, p.addr)).FindAllString(p.Output.String(), -1), 2)
	st, err := os.Stat(socket)
	require.NoError(t, err)
	require.EqualValues(t, 0o700, st.Mode().Perm())
	nc, err := net.Dial("unix", socket)
	require.NoError(t, err)
	_, err = nc.Write([]byte("PING\r\n"))
	require.NoError(t, err)
	b := make([]byte, 7)
	_, err = nc.Read(b)
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", string(b))
	require.NoError(t, nc.Close())

	code, out := outcome(t, "--port", "0", "--unixsocket", socket)
	require.Equal(t, 1, code)
	require.Contains(t, out, "another process does")

	// The socket that kill -9 leaves behind does not prevent the next start.
	p.Signal(t, syscall.SIGKILL)
	require.Equal(t, -1, p.Exit(t))
	require.FileExists(t, socket)
	p = startProxy(t, args...)
	p.stop(t)
	require.NoFileExists(t, socket)
}

func port(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	return port
}

func TestLogHonoursItsFileAndLevel(t *testing.T) {
	t.Parallel()
	logfile := filepath.Join(t.TempDir(), "log")
	p := spawn(t, proxytest.Binary, "--bind", "127.0.0.1", "--port", "0", "--logfile", logfile, "--requirepass", "hush-hush")
	eventually(t, "the log file", func() bool {
		b, err := os.ReadFile(logfile)
		return err == nil && bytes.Contains(b, []byte("msg=listening"))
	})
	p.Stop(t)
	b, err := os.ReadFile(logfile)
	require.NoError(t, err)
	require.Regexp(t, `^time=\S+ level=notice msg=`, string(b))
	require.NotContains(t, string(b), "hush-hush")
	require.Empty(t, p.Output.String())

	p2 := spawn(t, proxytest.Binary, "--bind", "127.0.0.1", "--port", "0", "--loglevel", "warning", "--unixsocket", filepath.Join(t.TempDir(), "s"))
	eventually(t, "the socket", func() bool { return !p2.Running() || exists(p2.Cmd.Args[len(p2.Cmd.Args)-1]) })
	p2.Stop(t)
	require.Empty(t, p2.Output.String())
}

// A reload is refused if it contradicts a setting that only a restart would change.
func TestReloadNeverSharesTheLogFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	conf, log := filepath.Join(folder, "rlproxy.conf"), filepath.Join(folder, "log")
	configure := func(text string) { require.NoError(t, os.WriteFile(conf, []byte(text), 0o600)) }
	configure("logfile " + log)
	p := spawn(t, proxytest.Binary, "--bind", "127.0.0.1", "--port", "0", "--include", conf)
	logged := func(text string) {
		eventually(t, text, func() bool {
			b, err := os.ReadFile(log)
			return err == nil && bytes.Contains(b, []byte(text))
		})
	}
	logged("msg=listening")
	configure("logfile " + log + "2\ndecision-log " + log)
	p.Signal(t, syscall.SIGHUP)
	logged("configuration reload failed")
	logged("logfile and decision-log must differ")
	p.Stop(t)
}

// There is a warning about clients without a password if clients can connect from other machines.
func TestOpenAddressesAreWarnedAbout(t *testing.T) {
	t.Parallel()
	const warning = "any client that can connect has full access"
	for bind, open := range map[string]bool{"127.0.0.1 -::1": false, "0.0.0.0": true} {
		args := append([]string{"--bind"}, strings.Fields(bind)...)
		p := spawn(t, proxytest.Binary, append(args, "--port", "0", "--protected-mode", "no")...)
		eventually(t, "the listener", func() bool { return strings.Contains(p.Output.String(), "msg=listening") })
		require.Equal(t, open, strings.Contains(p.Output.String(), warning), bind)
		p.Stop(t)
	}
}

// A reload warns likewise.
func TestOpeningAddressesByAReloadIsWarnedAbout(t *testing.T) {
	t.Parallel()
	conf := write(t, "a.conf", "bind 0.0.0.0\nport 0\n")
	p := spawn(t, proxytest.Binary, conf)
	eventually(t, "the listener", func() bool { return strings.Contains(p.Output.String(), "msg=listening") })
	require.NoError(t, os.WriteFile(conf, []byte("bind 0.0.0.0\nport 0\nprotected-mode no\n"), 0o600))
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "the warning", func() bool { return strings.Contains(p.Output.String(), "any client that can connect has full access") })
	p.Stop(t)
}

// A process that is too busy to accept another client keeps its socket.
func TestBusyUnixSocketIsNotReplaced(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, syscall.Close(fd)) }()
	require.NoError(t, syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}))
	require.NoError(t, syscall.Listen(fd, 0))
	for {
		nc, err := net.Dial("unix", socket)
		if err != nil {
			break // the queue is full
		}
		defer func() { _ = nc.Close() }()
	}
	code, out := outcome(t, "--port", "0", "--unixsocket", socket)
	require.Equal(t, 1, code)
	require.Contains(t, out, "another process does")
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestConfigGetHidesPasswords(t *testing.T) {
	t.Parallel()
	p := startProxy(t, "--maxclients", "123", "--maxmemory", "256mb", "--requirepass", "hush")
	c := dial(t, p.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "hush"))
	require.Equal(t, []any{"maxclients", "123"}, c.do(t, "CONFIG", "GET", "maxclients"))
	require.Equal(t, []any{"maxmemory", "268435456"}, c.do(t, "CONFIG", "GET", "maxmemory"))
	require.NotContains(t, c.do(t, "CONFIG", "GET", "*"), "hush")
	p.stop(t)
}
