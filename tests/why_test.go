package tests

import (
	"bytes"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
)

// why runs rlproxy why.
func why(t *testing.T, args ...string) (code int, out string) {
	t.Helper()
	p := exec.Command(proxytest.Binary, append([]string{"why"}, args...)...) // #nosec G204 -- the test's own
	var b bytes.Buffer
	p.Stdout, p.Stderr = &b, &b
	require.NoError(t, p.Start())
	_ = p.Wait() // the code says it
	return p.ProcessState.ExitCode(), b.String()
}

// One command says why a customer was denied, from files that were rotated and compressed, whatever denied.
func TestWhySaysWhyAKeyWasDenied(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	l, args := newDecisionLog(t, append(backends(n), "--policy", "api", "SLIDE", "2", "1h", "--policy-override", "api", "blocked", "BLOCKED")...)
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	for _, line := range []string{
		"RL.CHECK api 42", "RL.CHECK api 42", "RL.CHECK api 42", "RL.CHECK api blocked", "RL.SLIDE watched 1 60 SHADOW", "RL.SLIDE watched 1 60 SHADOW",
		"RL.ACQUIRE slots 1 ID a TTL 60", "RL.ACQUIRE slots 1 ID b TTL 60",
	} {
		c.do(t, words(line)...)
	}
	minute := time.Now().UTC().Format("2006-01-02 15:04") // not before the denials, whose windows go on
	n.Kill()
	c.do(t, words("RL.SLIDE closed 5 60 FAIL CLOSED")...)
	c.do(t, words("RL.SLIDE closed 5 60 FAIL ERROR")...)
	p.stop(t)
	out, err := exec.Command("gzip", l.path).CombinedOutput() // #nosec G204 -- as logrotate does
	require.NoError(t, err, "%s", out)

	for key, want := range map[string]string{
		"42": "api:42 was denied because its limit was used up: 2 per 1h by the policy api, of which 2 were used, and it asked for 1\\. " +
			"It was told to try again after \\S+, at \\S+\\. It was RL.SLIDE from \\S+, about a key of the node " + n.Addr +
			"\\. Further denials until \\S+ have no line of their own\\.\n$",
		"api:blocked": "api:blocked was denied because an override of the policy api blocks it\\. ",
		"watched":     "watched would have been denied, but was not, because SHADOW only counts: 1 per 1m, of which 1 were used, and it asked for 1\\. ",
		"slots":       "slots was denied because its limit was used up: 1 at the same time, of which 1 were used, and it asked for 1\\. ",
		"closed": "closed was denied because its node could not decide \\(FAIL CLOSED\\), and not because of its limit\\. What was wrong with the node: connection failed: [^\n]*\\. " +
			"[^\n]*\n.*closed was denied because its node could not decide \\(FAIL ERROR\\), and not because of its limit\\. The error was UNAVAILABLE " + n.Addr,
	} {
		code, said := why(t, key, l.path+".gz", "--zone", "UTC")
		require.Zero(t, code, said)
		require.Regexp(t, regexp.MustCompile(`^At \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} UTC, `+want), said)
	}
	code, said := why(t, "42", "--at", minute, "--zone", "UTC", "--json", l.path+".gz") // the window is an hour
	require.Zero(t, code, said)
	require.Contains(t, said, `"line":{"time":`)
	code, said = why(t, "43", l.path+".gz")
	require.Equal(t, 1, code)
	require.Regexp(t, `^No denial of 43 is in the log, which has lines from `, said)
}

// Hashed keys are found by the whole key, with or without its policy.
func TestWhyFindsHashedKeys(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--decision-log-keys", "hash", "--policy", "api", "SLIDE", "1", "60")
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	for _, line := range []string{"RL.CHECK api 42", "RL.CHECK api 42", "RL.SLIDE 42 1 60", "RL.SLIDE 42 1 60"} {
		c.do(t, words(line)...)
	}
	p.stop(t)
	_, said := why(t, "42", l.path)
	require.Regexp(t, `(?s)^At .*, the key with the hash b86c1701 was denied .*by the policy api.*\nAt .*, the key with the hash 73475cb4 was denied .*\n$`, said)
	code, said := why(t, "4*", l.path)
	require.Equal(t, 1, code)
	require.Contains(t, said, "ask for a whole key")
}

// Without a file, the newest denials answer.
func TestWhyAsksARunningProxy(t *testing.T) {
	t.Parallel()
	p := startMeasured(t)
	c := dial(t, p.addr)
	for range 2 {
		c.decide(t, "RL.SLIDE tenant:42 1 1h")
	}
	code, said := why(t, "tenant:42", "--zone", "UTC", strings.Replace(p.url, "/metrics", "/denials", 1))
	require.Zero(t, code, said)
	require.Regexp(t, `^At .* UTC, tenant:42 was denied because its limit was used up: 1 per 1h, of which 1 were used, and it asked for 1\. `, said)
	code, said = why(t, "tenant:42", strings.Replace(p.url, "/metrics", "/nothing", 1))
	require.Equal(t, 2, code)
	require.Equal(t, "rlproxy why: 404 Not Found\n", said)
}
