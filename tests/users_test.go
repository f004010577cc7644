package tests

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	errAuth  = errReply("NOAUTH Authentication required.")
	errLogin = errReply("WRONGPASS invalid username-password pair or user is disabled.")
	errNoKey = errReply("NOPERM this user has no permissions to access one of the keys used as arguments")
)

// errNoRun returns the error of a command that the user may not run.
func errNoRun(command string) errReply {
	return errReply("NOPERM this user has no permissions to run the '" + command + "' command")
}

// TestUsersReachOnlyTheirOwnKeys gives each of two services a user. Each reaches only its
// own keys, with each engine.
func TestUsersReachOnlyTheirOwnKeys(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(n)} {
		t.Run(name, func(t *testing.T) {
			conf := write(t, "rlproxy.conf", "user default off\n"+
				"user shop on >hush-shop ~shop:* +@ratelimit -rl.reset +ping\n"+
				"user mail on >hush-mail ~mail:* +rl.slide (~shop:* +rl.inspect)\n"+
				"user boss on >hush-boss ~* &* +@all\n")
			p := startProxy(t, append([]string{"--include", conf}, args...)...)
			c := dial(t, p.addr)
			require.Equal(t, errAuth, c.do(t, "RL.SLIDE", "shop:1", 5, 60))
			require.Equal(t, errLogin, c.do(t, "AUTH", "shop", "hush-mail"))
			require.Equal(t, status("OK"), c.do(t, "AUTH", "shop", "hush-shop"))
			require.EqualValues(t, 4, c.decide(t, "RL.SLIDE shop:1 5 60").remaining)
			replies := c.pipeline(t, words("RL.SLIDE mail:1 5 60"), words("RL.COUNTER shop:1 5 60"), words("RL.RESET shop:1"), words("CONFIG GET *"))
			require.Equal(t, []any{errNoKey, errNoRun("rl.reset"), errNoRun("config|get")}, []any{replies[0], replies[2], replies[3]})
			require.Len(t, replies[1], 5)
			if name == "redis" {
				replies := c.pipeline(t, words("GET shop:1"), words("GET mail:1"), words("HGETALL rl:{shop:1}"))
				require.Equal(t, []any{errNoRun("get"), errNoRun("get"), errNoRun("hgetall")}, replies)
			}
			require.Equal(t, status("OK"), c.do(t, "AUTH", "mail", "hush-mail"))
			require.EqualValues(t, 4, c.decide(t, "RL.SLIDE mail:1 5 60").remaining)
			require.Equal(t, errNoKey, c.do(t, "RL.SLIDE", "shop:1", 5, 60))
			require.Equal(t, errNoKey, c.do(t, "RL.INSPECT", "mail:1"))
			require.NotEmpty(t, c.do(t, "RL.INSPECT", "shop:1"))
			require.Equal(t, errNoRun("ping"), c.do(t, "PING"))

			require.Equal(t, status("OK"), c.do(t, "AUTH", "boss", "hush-boss"))
			require.Equal(t, int64(2), c.do(t, "RL.RESET", "shop:1", "mail:1", "none"))
			info := fmt.Sprint(c.do(t, "INFO", "stats"))
			for _, field := range []string{"acl_access_denied_auth:1", "acl_access_denied_cmd:" + map[string]string{"embedded": "3", "redis": "6"}[name], "acl_access_denied_key:3"} {
				require.Contains(t, info, field)
			}
			for _, args := range [][]any{words("CONFIG GET *"), words("INFO"), words("ACL LIST"), words("CLIENT LIST")} {
				require.NotContains(t, fmt.Sprint(c.do(t, args...)), "hush")
			}
			p.stop(t)
			require.NotContains(t, p.Output.String(), "hush")
		})
	}
}

// TestUsersAreReloaded changes the aclfile of a running proxy.
func TestUsersAreReloaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "users.acl")
	set := func(lines ...string) {
		require.NoError(t, os.WriteFile(file, []byte("# users\n\n"+strings.Join(lines, "\n")+"\n"), 0o600))
	}
	set("user default on >one ~* &* +@all", "user shop on >hush ~shop:* +@ratelimit")
	p := startProxy(t, "--aclfile", file)
	first, shop := dial(t, p.addr), dial(t, p.addr)
	require.Equal(t, status("OK"), first.do(t, "AUTH", "one"))
	require.Equal(t, status("OK"), shop.do(t, "AUTH", "shop", "hush"))

	for wrong, says := range map[string]string{
		"user shop on >hush hush":         `user \"shop\": rule 3: unknown rule`,
		"user shop on\nuser shop off":     `the user \"shop\" is defined twice`,
		"shop on >hush":                   `users.acl:3: a line must be user, a name and rules`,
		"user shop on >hush +rl.hush ~a*": `rule 3: unknown command`,
		"user shop on >hush (~a* +hush":   `rule 3: unmatched parenthesis in acl selector`,
	} {
		set(wrong)
		p.hangup(t, notReloaded)
		require.Contains(t, p.Output.String(), says)
		require.EqualValues(t, 1, shop.decide(t, "RL.SLIDE shop:1 5 60 COST 0").allowed)
	}

	set("user default on >one ~* &* +@all", "user shop on >hush (~shop:*	+rl.hotkeys ) (~mail:* +rl.slide)")
	p.hangup(t, reloaded)
	require.EqualValues(t, 1, shop.decide(t, "RL.SLIDE mail:1 5 60").allowed)
	require.Equal(t, errNoKey, shop.do(t, "RL.SLIDE", "shop:1", 5, 60))

	set("user default on >two ~* &* +@all")
	p.hangup(t, reloaded)
	_, err := shop.Exchange(words("PING"))
	require.Error(t, err, "the connection of a removed user stays open")
	require.Equal(t, status("PONG"), first.do(t, "PING"))
	require.Equal(t, errLogin, dial(t, p.addr).do(t, "AUTH", "one"))
	require.Equal(t, status("OK"), dial(t, p.addr).do(t, "AUTH", "two"))
	p.stop(t)
	require.NotContains(t, p.Output.String(), "hush")
	for _, line := range []string{
		`msg="reload changes a user" user=shop from="user shop on #hidden `,
		`msg="reload changes a user's passwords" user=default`,
		`msg="reload removes a user" user=shop rules="user shop on #hidden `,
	} {
		require.Contains(t, p.Output.String(), line)
	}
}

// TestUsersAreChecked checks that a mistake prevents the start, with a one-line message that
// shows no secret.
func TestUsersAreChecked(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"user shop on hush":     `user "shop": rule 2: unknown rule`,
		"user":                  "user must be a name and rules such as on >password ~keys:* +@ratelimit",
		"user a on\nuser a off": `the user "a" is defined twice`,
		"requirepass hush\nuser default on nopass":  "the default user's password is set twice",
		"aclfile /none\nuser a on":                  "users are set up twice",
		"aclfile /none/users.acl":                   "can't read the users: open /none/users.acl",
		"user shop on >hush (~a* +rl.slide\nport 0": `user "shop": rule 3: unmatched parenthesis in acl selector`,
		"user shop on (~a* >hush) +ping":            `user "shop": rule 2: rule 2 of the selector: a selector can only have rules about commands, keys and channels`,
	} {
		code, out := outcome(t, write(t, "a.conf", content), "--check")
		require.Equal(t, 1, code, out)
		require.Contains(t, out, want)
		require.NotContains(t, out, "hush")
	}
}
