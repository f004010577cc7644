package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// CONFIG SET finds the first mistake as Redis does, and says it in Redis's words. Where more can
// be said, that follows.
func TestConfigSetRefusesAsRedisDoes(t *testing.T) {
	const text = `
		CONFIG SET
		CONFIG SET timeout
		CONFIG SET timeout 1 maxclients
		CONFIG SET nosuch 1
		CONFIG SET nosuch' 1
		CONFIG SET include x
		CONFIG SET timeout 1 nosuch 2
		CONFIG SET timeout 1 timeout 2
		CONFIG SET timeout 1 TIMEOUT 2
		CONFIG SET timeout 1 timeout 2 nosuch 3
		CONFIG SET timeout 1 nosuch 3 timeout 2
		CONFIG SET timeout x nosuch 3
		CONFIG SET timeout x
		CONFIG SET TIMEOUT x
		CONFIG SET timeout 1 maxclients x
		CONFIG SET databases 2
		CONFIG SET Databases 2
		CONFIG SET databases 2 nosuch 1
		CONFIG SET nosuch 1 databases 2
		CONFIG SET databases 2 databases 3
		CONFIG SET timeout 1 MaxClients 5000
		CONFIG RESETSTAT x
		CONFIG REWRITE x`
	server := redistest.Start(t)
	config := testConfig(newFakeEngine())
	h := New(config)
	for i, line := range dialogue(t, text) {
		theirs := exchange(t, server.Addr, dialogue(t, strings.Split(strings.TrimSpace(text), "\n")[i]))
		ours := ask(h, open(h, 1), line)
		if immutable, _, ok := strings.Cut(ours, errLater); ok {
			ours = immutable + "\r\n"
		}
		require.Equal(t, theirs, ours, "%s", line)
	}
	require.Equal(t, []string{"default 127.0.0.1:50001 [[timeout 1] [maxclients 5000]]"}, config.Settings.(*fakeSettings).set)

	for line, reply := range map[string]string{
		"CONFIG SET port 1":                                "-ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config" + errLater + "\r\n",
		"CONFIG SET requirepass x":                         "-ERR CONFIG SET failed (possibly related to argument 'requirepass') - can't set immutable config: it changes when the configuration is read again, at SIGHUP\r\n",
		"CONFIG SET timeout " + strings.Repeat("1", 65537): "-ERR CONFIG SET failed (possibly related to argument 'timeout') - argument must have at most 65536 bytes\r\n",
		"CONFIG REWRITE":                                   "-ERR CONFIG REWRITE is not supported: rlproxy does not write to its configuration. Change the file and send SIGHUP\r\n",
	} {
		require.Equal(t, reply, ask(h, open(h, 1), dialogue(t, line)...))
	}
	config.Settings = nil
	h = New(config)
	require.Contains(t, ask(h, open(h, 1), dialogue(t, "CONFIG SET timeout 1")...), "Unknown option")
}

const errLater = ": it changes at the next start"

// CONFIG SET changes what the commands after it in the pipeline do, so it runs before them, and
// after those before it.
func TestConfigSetRunsInItsPlace(t *testing.T) {
	e := newFakeEngine()
	h := New(testConfig(e))
	replies := ask(h, open(h, 1), dialogue(t, "RL.SLIDE k 5 60\nCONFIG SET timeout 1\nRL.SLIDE k 5 60\nRL.SLIDE k 5 60")...)
	require.Equal(t, 3, strings.Count(replies, "*5\r\n"))
	require.Equal(t, []int{1, 2}, e.calls)
}

// Rules for a user name the subcommands of CONFIG.
func TestConfigSetNeedsTheRight(t *testing.T) {
	for rule, allowed := range map[string]bool{
		"+config|set": true, "+config": true, "+@admin": true, "+@dangerous": true, "+@all": true,
		"+@all -config|set": false, "+config|get": false, "+@all -@dangerous": false, "+@all -@admin": false, "+@read": false,
	} {
		config := testConfig(newFakeEngine())
		var err error
		config.ACL, err = NewACL([][]string{append([]string{"default", "on", "nopass", "~*"}, strings.Fields(rule)...)}, "")
		require.NoError(t, err)
		h := New(config)
		want := "+OK\r\n"
		if !allowed {
			want = "-NOPERM this user has no permissions to run the 'config|set' command\r\n"
		}
		require.Equal(t, want, ask(h, open(h, 1), dialogue(t, "CONFIG SET timeout 1")...), rule)
		require.Equal(t, allowed, len(config.Settings.(*fakeSettings).set) == 1)
	}
}
