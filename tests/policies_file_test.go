package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// TestPolicyFileIsIntactAfterAKill kills a process again and again while its policies change.
func TestPolicyFileIsIntactAfterAKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policies")
	last := 0 // the number that the latest answered change has set
	for round := range 8 {
		p := startProxy(t, "--policy-file", path)
		c := dial(t, p.addr)
		if round > 0 {
			limit := c.limitOf(t, "api")
			require.GreaterOrEqual(t, limit, int64(last), "what was answered is stored")
			require.LessOrEqual(t, limit, int64(last+1))
			last = int(limit)
		}
		kill := make(chan struct{})
		go func() { // ends after 20 changes, while more are under way
			<-kill
			p.Kill()
		}()
		before := last
		for n := last + 1; ; n++ {
			require.Less(t, n, before+100_000)
			if n == before+20 {
				close(kill)
			}
			replies, err := c.Exchange(words(fmt.Sprintf("RL.POLICY SET api SLIDE %d 60", n)))
			if err != nil {
				break
			}
			require.IsType(t, []any{}, replies[0])
			last = n
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		line, text, _ := strings.Cut(string(b), "\n")
		version, err := strconv.Atoi(strings.Fields(line)[2])
		require.NoError(t, err)
		require.Equal(t, stored(version, text), string(b), "the file is whole")
		last = max(last, version) // version n has set n, as nothing else was changed
		require.Equal(t, fmt.Sprintf("policy api SLIDE %d 1m\n", version), text)
	}
}

// TestFullDiskLeavesPoliciesUnchanged runs a process that must not write files of more than a few KB.
func TestFullDiskLeavesPoliciesUnchanged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "policies")
	p := &proxytest.Proxy{Process: spawn(t, "sh", "-c", `ulimit -f 4; exec "$0" "$@"`, proxytest.Binary, "--bind", "127.0.0.1", "--port", "0", "--policy-file", path)}
	p.Ready(t)
	c := dial(t, p.Addr)
	whole, refused := "", ""
	for i := 0; refused == ""; i++ {
		require.Less(t, i, 1000, "the limit of the shell has no effect")
		reply := c.do(t, words(fmt.Sprintf("RL.POLICY SET p%d SLIDE 100 60", i))...)
		if text, failed := reply.(proxytest.ErrReply); failed {
			refused = string(text)
			require.Equal(t, proxytest.ErrReply(fmt.Sprintf("ERR no such policy 'p%d'", i)), c.do(t, "RL.CHECK", fmt.Sprintf("p%d", i), "k"))
			break
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		whole = string(b)
	}
	require.Regexp(t, "^ERR the policies cannot be stored: write "+path+`\.unfinished-\d+: file too large; nothing was changed$`, refused)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, whole, string(b))
	left, err := filepath.Glob(folder + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{path}, left, "nothing half written is left")
	require.Equal(t, int64(100), c.limitOf(t, "p0"))
	require.Equal(t, int64(1), c.do(t, "RL.POLICY", "DEL", "p0"), "less has room")

	require.NoError(t, os.RemoveAll(folder))
	require.Regexp(t, "^ERR the policies cannot be stored: open "+path+`\.unfinished-\d+: no such file or directory; nothing was changed$`, c.do(t, words("RL.POLICY DEL p1")...))
	require.Equal(t, int64(100), c.limitOf(t, "p1"))
}

// TestInvalidPolicyFilePreventsTheStart also uses paths that cannot be files.
func TestInvalidPolicyFilePreventsTheStart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "policies")
	good := stored(3, "policy api SLIDE 5 60\n")
	for content, why := range map[string]string{
		"policy api SLIDE 5 60\n":              "policy-file " + path + ": it begins with 'policy api SLIDE 5 60\\n' instead of the first line of stored policies",
		good[:len(good)-4]:                     "policy-file " + path + ": its text does not match the checksum in its first line",
		strings.Replace(good, " 1 ", " 2 ", 1): "policy-file " + path + ": it has format 2, but this version of rlproxy knows only format 1",
		stored(3, "policy api SLIDE 5 60\n\npolicy-override api a* 5 60 COST"): "policy-file " + path + ": after its first line, line 3: ",
	} {
		require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
		for _, args := range [][]string{{"--check"}, nil} {
			p := spawn(t, proxytest.Binary, append([]string{"--port", "0", "--policy-file", path}, args...)...)
			require.Equal(t, 1, p.Exit(t))
			require.Contains(t, p.Output.String(), "rlproxy: "+why)
		}
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, content, string(b))
	}
	for _, c := range [][2]string{
		{"--policy-file " + folder + "/none/policies", "policy-file: no folder for " + folder + "/none/policies"},
		{"--policy-file " + path + "/x", "policy-file: no folder for " + path + "/x: " + path + " is a file"},
		{"--policy-file " + folder, "policy-file " + folder + ": read " + folder + ": is a directory"},
		{"--policy-file " + path + " --backend redis://127.0.0.1:1", "policy-file cannot be combined with backend"},
	} {
		for _, args := range [][]string{{"--check"}, nil} {
			p := spawn(t, proxytest.Binary, append(append([]string{"--port", "0"}, strings.Fields(c[0])...), args...)...)
			require.Equal(t, 1, p.Exit(t))
			require.Contains(t, p.Output.String(), "rlproxy: "+c[1])
		}
	}
}

// TestPoliciesAreLoggedAndSurviveARestart changes policies. The log says who changed them.
func TestPoliciesAreLoggedAndSurviveARestart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "policies")
	p := startProxy(t, "--policy-file", path)
	c := dial(t, p.addr)
	c.setPolicy(t, "api COUNTER 100 60 BUCKETS 6 FAIL OPEN")
	require.IsType(t, []any{}, c.do(t, "RL.POLICY", "OVERRIDE", "api", "a \"b\"\n*", "BLOCKED"))
	require.IsType(t, []any{}, c.do(t, "RL.POLICY", "OVERRIDE", "api", strings.Repeat("k", 4000), "5", "60"))
	before := c.do(t, "RL.POLICY", "LIST")
	for _, line := range []string{
		`level=notice msg="a policy was set" policy="api COUNTER 100 1m BUCKETS 6 FAIL OPEN" version=1 user=default addr=` + c.LocalAddr().String(),
		`level=notice msg="an override was set" policy="api \"a \\\"b\\\"\\x0a*\" BLOCKED" version=2 user=default addr=` + c.LocalAddr().String(),
		`level=notice msg="an override was set" policy="api '` + strings.Repeat("k", 128) + `'... (4000 bytes) 5 1m" version=3 user=default addr=` + c.LocalAddr().String(),
	} {
		eventually(t, line, func() bool { return strings.Contains(p.Output.String(), line) })
	}
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode())
	p.stop(t)
	c = dial(t, startProxy(t, "--policy-file", path).addr)
	require.Equal(t, before, c.do(t, "RL.POLICY", "LIST"))
	require.Equal(t, int64(3), c.info(t, "policies_version"))
	require.Equal(t, int64(0), c.do(t, "RL.CHECK", "api", "a \"b\"\nc").([]any)[0])

	p = startProxy(t)
	dial(t, p.addr).setPolicy(t, "api SLIDE 100 60")
	eventually(t, "a warning", func() bool { return strings.Contains(p.Output.String(), "no policy-file is configured") })
}
