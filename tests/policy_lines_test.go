package tests

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestPoliciesOfTheConfigurationFollowIt changes the policies of a running proxy by SIGHUP. What
// was used stays used, and a file with a wrong line changes nothing.
func TestPoliciesOfTheConfigurationFollowIt(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(n)} {
		t.Run(name, func(t *testing.T) {
			conf := write(t, "rlproxy.conf", "policy api SLIDE 3 1h\npolicy-override api tenant:7:* 1 1h 9 1d\n")
			set := func(content string) { require.NoError(t, os.WriteFile(conf, []byte(content), 0o600)) }
			p := startProxy(t, append([]string{"--include", conf}, args...)...)
			c := dial(t, p.addr)
			require.Equal(t, []any{int64(1), int64(3), int64(2), int64(0), int64(3_600_001)}, c.do(t, words("RL.CHECK api tenant:42")...))
			require.EqualValues(t, 1, c.decide(t, "RL.SLIDE api:tenant:42 3 1h").remaining, "RL.SLIDE counts the same key")
			require.EqualValues(t, 2, c.inspect(t, "api:tenant:42").used)
			require.EqualValues(t, 1, c.decide(t, "RL.CHECK api tenant:7:login").limit)
			require.Equal(t, errReply("ERR no such policy 'web'"), c.do(t, words("RL.CHECK web tenant:42")...))
			require.Equal(t, []any{"policy", "api SLIDE 3 1h", "policy-override", "api tenant:7:* 1 1h 9 1d"}, c.do(t, words("CONFIG GET policy policy-override")...))

			set("policy web FIXED 5 1m\npolicy api SLIDE 100 1h\npolicy-override api tenant:42 9 1h FAIL OPEN\n")
			p.hangup(t, notReloaded)
			require.Contains(t, p.Output.String(), conf+":3: policy-override: syntax error: unknown option 'FAIL'; expected another limit")
			require.EqualValues(t, 3, c.decide(t, "RL.CHECK api tenant:42 COST 0").limit)
			require.Equal(t, errReply("ERR no such policy 'web'"), c.do(t, words("RL.CHECK web tenant:42")...))

			set("policy web FIXED 5 1m\npolicy api SLIDE 100 1h\npolicy-override api tenant:42 2 1h\npolicy-override api tenant:9 BLOCKED\npolicy-override api in* UNLIMITED\n")
			p.hangup(t, reloaded)
			d := c.decide(t, "RL.CHECK api tenant:42")
			require.Equal(t, []int64{0, 2, 0}, []int64{d.allowed, d.limit, d.remaining}, "the new limit counts what was used")
			require.EqualValues(t, 98, c.decide(t, "RL.CHECK api tenant:7:login").remaining, "its window of an hour is the same")
			require.Equal(t, []any{int64(0), int64(0), int64(0), int64(1000), int64(1000)}, c.do(t, words("RL.CHECK api tenant:9")...))
			require.Equal(t, []any{int64(1), int64(0), int64(0), int64(0), int64(0)}, c.do(t, words("RL.CHECK api inside COST 1000")...))
			require.EqualValues(t, 4, c.decide(t, "RL.CHECK web tenant:42").remaining)

			set("")
			p.hangup(t, reloaded)
			require.Equal(t, errReply("ERR no such policy 'api'"), c.do(t, words("RL.CHECK api tenant:42")...))
			require.Equal(t, int64(1), c.do(t, "RL.RESET", "api:tenant:42"), "its key has its count")
			p.stop(t)
		})
	}
}

// TestPoliciesAnswerWithoutTheirNode sends RL.CHECK while no node answers.
func TestPoliciesAnswerWithoutTheirNode(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	conf := write(t, "rlproxy.conf", "policy open SLIDE 5 60 FAIL OPEN\npolicy closed SLIDE 5 60\npolicy loud SLIDE 5 60 FAIL ERROR\n"+
		"policy-override loud in UNLIMITED\npolicy-override open out BLOCKED\n")
	p := startProxy(t, append([]string{"--include", conf}, backends(n)...)...)
	c := dial(t, p.addr)
	require.EqualValues(t, 4, c.decide(t, "RL.CHECK open k").remaining)
	n.Kill()
	require.Equal(t, []any{int64(1), int64(5), int64(-1), int64(0), int64(0)}, c.do(t, words("RL.CHECK open k")...))
	d := c.decide(t, "RL.CHECK closed k")
	require.Equal(t, []int64{0, 5, -1}, []int64{d.allowed, d.limit, d.remaining})
	require.True(t, strings.HasPrefix(string(c.do(t, words("RL.CHECK loud k")...).(errReply)), "UNAVAILABLE "))
	require.Equal(t, []any{int64(1), int64(0), int64(0), int64(0), int64(0)}, c.do(t, words("RL.CHECK loud in")...))
	require.Equal(t, []any{int64(0), int64(0), int64(0), int64(1000), int64(1000)}, c.do(t, words("RL.CHECK open out")...))
	p.stop(t)
}

// TestATenantChecksOnlyItsOwnKeys gives a tenant a user whose key patterns name the policy, too.
func TestATenantChecksOnlyItsOwnKeys(t *testing.T) {
	t.Parallel()
	conf := write(t, "rlproxy.conf", "policy api SLIDE 5 60\npolicy web SLIDE 5 60\n"+
		"user default off\nuser tenant42 on >hush ~api:tenant:42 ~api:tenant:42:* +rl.check\n")
	p := startProxy(t, "--include", conf)
	c := dial(t, p.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "tenant42", "hush"))
	require.EqualValues(t, 4, c.decide(t, "RL.CHECK api tenant:42").remaining)
	require.EqualValues(t, 4, c.decide(t, "RL.CHECK api tenant:42:login").remaining)
	for _, line := range []string{"RL.CHECK api tenant:43", "RL.CHECK api tenant:421", "RL.CHECK web tenant:42", "RL.CHECK nothing tenant:42"} {
		require.Equal(t, errNoKey, c.do(t, words(line)...), line)
	}
	require.Equal(t, errNoRun("rl.slide"), c.do(t, words("RL.SLIDE api:tenant:42 5 60")...))
	p.stop(t)
}
