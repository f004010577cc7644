package commands

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/logged"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/resp"
)

func TestSessionIsTrustedOnlyAfterLogin(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("secret")
	h := New(cfg)
	s := open(h, 1)
	require.False(t, s.Trusted)
	ask(h, s, words("AUTH", "wrong"))
	require.False(t, s.Trusted)
	ask(h, s, words("AUTH", "secret"))
	require.True(t, s.Trusted)
	ask(h, s, words("RESET"))
	require.False(t, s.Trusted)
	cfg.ACL = nil
	require.True(t, open(New(cfg), 1).Trusted)
}

func TestRefusedLoginsAreEpisodes(t *testing.T) {
	w := logged.New()
	cfg := testConfig(newFakeEngine())
	cfg.ACL, cfg.Logger, cfg.Now = requiring("secret"), w.Logger(), w.Now
	h := New(cfg)
	w.RequireEpisodes(t, logged.Lines{
		Began: `"logins refused: wrong name or password"`, Ended: `"logins succeed, and none is refused any more"`,
		Detail: " client=1 addr=127.0.0.1:50001", Count: "refused", Calm: episodes.Every,
	}, func() { ask(h, open(h, 1), words("AUTH", "wrong")) }, func() { ask(h, open(h, 2), words("AUTH", "secret")) })
	logins, _, _ := h.Denied()
	require.EqualValues(t, 4, logins)
}

func TestErrorsDoNotQuotePasswords(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("hunter2")
	for _, args := range []resp.Command{
		words("AUTH", "hunter3"), words("AUTH", "default", "hunter3"), words("AUTH", "a", "hunter3", "b"),
		words("HELLO", "3", "AUTH", "default", "hunter3"), words("HELLO", "AUTH", "default", "hunter3"),
		words("HELLO", "9", "AUTH", "default", "hunter3"), words("AUTHX", "hunter3"),
	} {
		h := New(cfg)
		require.NotContains(t, ask(h, open(h, 1), args), "hunter")
	}
}

func TestSetACLAppliesFromTheNextPipelineOn(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, "a on nopass ~* +@all", "b on nopass ~* +@all")
	h := New(cfg)
	a, b, anonymous := open(h, 1), open(h, 2), open(h, 3)
	require.Equal(t, "+OK\r\n+PONG\r\n+OK\r\n", ask(h, a, words("AUTH", "a", ""), words("PING"), words("MULTI")))
	require.Equal(t, "+OK\r\n", ask(h, b, words("AUTH", "b", "")))

	h.SetACL(users(t, "a on >secret ~* +@all -ping", "default on >secret ~* +@all"))
	require.Equal(t, "-EXECABORT Transaction discarded because of previous errors.\r\n", ask(h, a, words("EXEC")))
	require.Equal(t, "-NOPERM this user has no permissions to run the 'ping' command\r\n", ask(h, a, words("PING")))
	require.False(t, a.Closing())
	require.Empty(t, ask(h, b, words("PING")), "the user is gone")
	require.True(t, b.Closing())
	require.Equal(t, "+PONG\r\n", ask(h, anonymous, words("PING")), "a new password applies to new logins")
	require.Equal(t, "-NOAUTH Authentication required.\r\n", ask(h, open(h, 4), words("PING")))
	require.Equal(t, "+RESET\r\n-NOAUTH Authentication required.\r\n", ask(h, anonymous, words("RESET"), words("PING")))

	h.SetACL(users(t, "default off"))
	require.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", ask(h, anonymous, words("AUTH", "default", "secret")))
	require.False(t, anonymous.Closing())

	waiting := open(h, 5)
	require.Equal(t, "-NOAUTH Authentication required.\r\n", ask(h, waiting, words("PING")))
	h.SetACL(users(t, "default on nopass ~* +@all"))
	require.Equal(t, "+PONG\r\n", ask(h, waiting, words("PING")), "no login is needed any more")
}

func TestLoginRepliesAreThoseOfRedis(t *testing.T) {
	server := redistest.Start(t)
	require.NoError(t, server.Client.ConfigSet(context.Background(), "requirepass", "secret").Err())
	cfg := testConfig(newFakeEngine())
	cfg.ACL = requiring("secret")
	for _, text := range []string{
		"PING\nECHO\nMULTI\nCLIENT ID\nCOMMAND\nHELLO\nHELLO 3\nHELLO 4\nRESET\nQUIT",
		"AUTH wrong\nAUTH default wrong\nAUTH nobody secret\nAUTH a b c\nPING",
		"HELLO 3 AUTH default wrong\nPING\nHELLO 3 AUTH default secret\nPING\nAUTH wrong\nPING\nRESET\nPING",
		"AUTH secret\nPING\nAUTH wrong\nPING\nHELLO 3\nHELLO 3 SETNAME a AUTH default wrong\nCLIENT GETNAME",
		"HELLO 3 SETNAME a\nAUTH secret\nCLIENT GETNAME\nHELLO 2 AUTH default secret SETNAME b\nCLIENT GETNAME",
	} {
		compare(t, server.Addr, cfg, text)
	}
}
