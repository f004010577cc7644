package tests

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// sandbox is a folder that processes see as their root, as in a container.
type sandbox struct {
	root     string
	uid, gid int      // of the processes
	env      []string // name=value pairs that processes have beside those of the test
}

// newSandbox returns a sandbox for processes of this user, with the given folders, to which
// only the user may write.
func newSandbox(t *testing.T, uid, gid int, writable ...string) *sandbox {
	t.Helper()
	s := &sandbox{root: t.TempDir(), uid: uid, gid: gid}
	for _, path := range writable {
		at := filepath.Join(s.root, path)
		require.NoError(t, os.MkdirAll(at, 0o755)) // #nosec G301 -- as systemd makes them
		s.own(t, at, uid, gid)
	}
	return s
}

// own gives a file to a user and group, if this process may. Otherwise all files and
// processes are of the user who runs the tests.
func (s *sandbox) own(t *testing.T, path string, uid, gid int) {
	t.Helper()
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, uid, gid))
	}
}

// write makes a file that belongs to root and to the group of the processes.
func (s *sandbox) write(t *testing.T, path, content string, mode os.FileMode) {
	t.Helper()
	at := filepath.Join(s.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755)) // #nosec G301 -- as in an image
	require.NoError(t, os.WriteFile(at, []byte(content), 0o600))
	require.NoError(t, os.Chmod(at, mode))
	s.own(t, at, 0, s.gid)
}

// install copies rlproxy into the sandbox, in a process of its own. If this process had the
// file open for writing, the processes that other tests start meanwhile would inherit it, and
// a file that is open for writing cannot be executed.
func (s *sandbox) install(t *testing.T, path string) {
	t.Helper()
	at := filepath.Join(s.root, path)
	require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o755))             // #nosec G301 -- as in an image
	out, err := exec.Command("cp", staticBinary(t), at).CombinedOutput() // #nosec G204 -- the test's own arguments
	require.NoError(t, err, "%s", out)
	require.NoError(t, os.Chmod(at, 0o755)) // #nosec G302 -- a program
	s.own(t, at, 0, s.gid)
}

// spawn starts a command in the sandbox. As root, it runs as the sandbox's user. Otherwise
// it runs in a user namespace, as the user who runs the tests.
func (s *sandbox) spawn(t *testing.T, command ...string) *proxytest.Process {
	t.Helper()
	args := []string{"unshare", "--map-root-user", "chroot", s.root}
	if os.Getuid() == 0 {
		args = []string{"chroot", "--groups=", "--userspec=" + strconv.Itoa(s.uid) + ":" + strconv.Itoa(s.gid), s.root}
	}
	return spawn(t, "env", slices.Concat(s.env, args, command)...)
}

// start starts an rlproxy in the sandbox and waits until it listens.
func (s *sandbox) start(t *testing.T, command ...string) *proxy {
	t.Helper()
	p := &proxytest.Proxy{Process: s.spawn(t, command...)}
	p.Ready(t)
	_, port, _ := strings.Cut(p.Addr[strings.LastIndex(p.Addr, ":"):], ":")
	return &proxy{p, "127.0.0.1:" + port}
}

// staticBinary returns the path of an rlproxy that was built as make build does, so that it
// needs no other file.
func staticBinary(t *testing.T) string {
	t.Helper()
	staticOnce.Do(func() {
		staticPath = filepath.Join(filepath.Dir(proxytest.Binary), "rlproxy-static")
		staticErr = proxytest.BuildStatic(staticPath, "../cmd/rlproxy")
	})
	require.NoError(t, staticErr)
	return staticPath
}

var (
	staticOnce sync.Once
	staticPath string
	staticErr  error
)

// image is the last stage of deploy/Dockerfile, in a sandbox.
type image struct {
	*sandbox
	entrypoint  []string
	healthcheck []string
}

// newImage follows the instructions of the Dockerfile that make up the image.
func newImage(t *testing.T) *image {
	t.Helper()
	b, err := os.ReadFile("../deploy/Dockerfile")
	require.NoError(t, err)
	_, stage, ok := strings.Cut(string(b), "\nFROM scratch\n")
	require.True(t, ok)
	user := regexp.MustCompile(`(?m)^USER (\d+):(\d+)$`).FindStringSubmatch(stage)
	require.NotNil(t, user, "runAsNonRoot needs a numeric user")
	uid, _ := strconv.Atoi(user[1])
	gid, _ := strconv.Atoi(user[2])
	require.NotZero(t, uid)
	i := &image{sandbox: newSandbox(t, uid, gid)}
	for _, m := range regexp.MustCompile(`(?m)^COPY (--from=build )?(\S+) (\S+)$`).FindAllStringSubmatch(stage, -1) {
		switch {
		case m[2] == "/src/bin/rlproxy":
			i.install(t, m[3])
		case m[1] == "":
			b, err := os.ReadFile(filepath.Join("..", m[2]))
			require.NoError(t, err)
			i.write(t, m[3], string(b), 0o644)
		default:
			require.True(t, strings.HasPrefix(m[2], "/etc/ssl/"), "unknown file of the build stage: %s", m[2])
		}
	}
	for instruction, to := range map[string]*[]string{"ENTRYPOINT": &i.entrypoint, "HEALTHCHECK .* CMD": &i.healthcheck} {
		command := regexp.MustCompile(`(?m)^` + instruction + ` (\[.*\])$`).FindStringSubmatch(stage)
		require.NotNil(t, command, instruction)
		require.NoError(t, json.Unmarshal([]byte(command[1]), to))
	}
	return i
}

// command returns the entry point followed by the arguments that docker run has after the image's name.
func (i *image) command(args ...string) []string {
	return append(append([]string(nil), i.entrypoint...), args...)
}
