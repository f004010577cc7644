package tests

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// figure returns a field of a line of CLIENT LIST.
func figure(t *testing.T, line, name string) int64 {
	t.Helper()
	m := regexp.MustCompile(`(?:^| )` + name + `=(\d+)(?: |$)`).FindStringSubmatch(line)
	require.NotNil(t, m, "%s in %s", name, line)
	n, err := strconv.ParseInt(m[1], 10, 64)
	require.NoError(t, err)
	return n
}

// A client that does not read its replies is the first that the command of docs/operations.md shows. What another has sent
// of a command that is not complete shows, too, and a client that waits for nothing holds nothing.
func TestASlowClientIsFound(t *testing.T) {
	t.Parallel()
	p := startProxy(t)
	c, slow, partial := dial(t, p.addr), dial(t, p.addr), dial(t, p.addr)
	for name, client := range map[string]*conn{"watcher": c, "slow": slow, "partial": partial} {
		require.Equal(t, status("OK"), client.do(t, "CLIENT", "SETNAME", name))
	}
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	command := regexp.MustCompile(`(?m)^    (redis-cli .*CLIENT LIST.*omem.*)$`).FindSubmatch(text)
	require.NotNil(t, command)
	_, port, _ := strings.Cut(p.addr, ":")
	line := strings.ReplaceAll(string(command[1]), "-p 6380", "-p "+port)

	const partly = 1 << 20
	_, err = partial.Write(append([]byte("*2\r\n$4\r\nECHO\r\n$2000000\r\n"), make([]byte, partly)...))
	require.NoError(t, err)
	big := strings.Repeat("x", 64<<10)
	go func() { // ends with the connection
		for {
			if _, err := slow.Write(appendCommand(nil, "ECHO", big)); err != nil {
				return
			}
		}
	}()
	lineOf := func(name string) string {
		for line := range strings.Lines(c.do(t, "CLIENT", "LIST").(string)) {
			if strings.Contains(line, " name="+name+" ") {
				return strings.TrimSpace(line)
			}
		}
		return ""
	}
	eventually(t, "replies that are not read", func() bool {
		s := lineOf("slow")
		return figure(t, s, "omem") > 100_000 && figure(t, s, "qbuf") > 0 && figure(t, lineOf("partial"), "qbuf") >= partly
	})
	out, err := exec.Command("bash", "-c", line).CombinedOutput()
	require.NoError(t, err, "%s", out)
	first, _, _ := strings.Cut(string(out), "\n")
	require.Contains(t, first, " name=slow ", "%s", out)

	s, rest := lineOf("slow"), lineOf("partial")
	require.GreaterOrEqual(t, figure(t, s, "tot-mem"), figure(t, s, "omem"))
	require.GreaterOrEqual(t, figure(t, rest, "tot-mem"), int64(partly))
	require.Zero(t, figure(t, rest, "omem"))
	require.Zero(t, figure(t, lineOf("watcher"), "omem"))
	info := c.do(t, "INFO", "clients").(string)
	require.Regexp(t, `clients_qbuf:[1-9]\d*\r\nclients_omem:[1-9]\d*\r\nclients_tot_mem:[1-9]\d*\r\n`, info)
	require.NoError(t, partial.Close())
	require.NoError(t, slow.Close())
}
