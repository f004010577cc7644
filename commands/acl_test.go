package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// users makes an ACL of lines as a configuration has them.
func users(t *testing.T, lines ...string) *ACL {
	t.Helper()
	var words [][]string
	for _, l := range lines {
		words = append(words, strings.Fields(l))
	}
	a, err := NewACL(words, "")
	require.NoError(t, err)
	return a
}

// TestRulesAreThoseOfRedis gives a redis-server and a Handler the same users, and
// compares what each of them is answered.
func TestRulesAreThoseOfRedis(t *testing.T) {
	server := redistest.Start(t)
	rules := []string{
		"none reset on nopass",
		"off reset off nopass ~* +@all",
		"all reset on nopass ~* &* +@all",
		"two reset on >one >two >one <one ~* &* +@all",
		"hash reset on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* &* +@all", // secret
		"keys reset on nopass ~a:* ~[bc]? %R~r:* %W~w:* %RW~rw:* &* +@all",
		"case reset on nopass ~A* &* +@ALL -PING +Client|Id",
		"cats reset on nopass ~* &* +@all -@connection +ping -@dangerous",
		"order reset on nopass ~* &* -ping +@all -@fast +@connection -client +client|getname",
		"sub reset on nopass allkeys &* +client -client|setname +acl|whoami +watch",
		"fresh nopass on ~* +@all reset on nopass +ping",
	}
	for _, r := range rules {
		require.NoError(t, server.Client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, fields(r)...)...).Err(), r)
	}
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, rules...)
	for _, login := range []string{
		"PING", "AUTH none x", "AUTH nobody x", "AUTH off x", "AUTH all x", "AUTH two one", "AUTH two two", "AUTH hash secret", "AUTH hash x",
		"AUTH keys x", "AUTH case x", "AUTH cats x", "AUTH order x", "AUTH sub x", "AUTH fresh x", "HELLO 3 AUTH keys x", "HELLO 3 AUTH none x",
	} {
		compare(t, server.Addr, cfg, login+`
			PING
			ECHO a
			ACL WHOAMI
			ACL USERS
			ACL WHAT
			ACL CAT nothing
			WATCH a:1 b1
			WATCH a:1 b
			WATCH r:1
			WATCH w:1
			WATCH rw:1
			WATCH A
			WATCH
			CLIENT SETNAME me
			CLIENT GETNAME
			CLIENT KILL ID 999
			CLIENT WHAT
			SELECT 0
			ROLE
			COMMAND COUNT a
			MULTI
			ECHO a
			EXEC
			MULTI
			PING
			DISCARD
			HELLO
			AUTH none x
			PING
			RESET
			PING`)
	}
}

func TestKeysOfRateLimits(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t,
		"shop on nopass ~shop:* +@ratelimit -rl.reset",
		"look on nopass %R~shop:* ~busy +@ratelimit",
		"read on nopass ~* +@read",
		"boss on nopass ~* +@all",
		"some on nopass ~shop:* +@ratelimit (~all:* +rl.slide) (%R~busy +@read) (~idle +rl.slide)")
	h := New(cfg)
	const slide = "*5\r\n:1\r\n:5\r\n:"
	nope := func(command string) string {
		return "-NOPERM this user has no permissions to run the '" + command + "' command\r\n"
	}
	const noKey = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
	for _, c := range []struct{ user, line, want string }{
		{"shop", "RL.SLIDE shop:1 5 60", slide},
		{"shop", "RL.COUNTER shop:1 5 60", slide},
		{"shop", "CL.THROTTLE shop:2 5 1 60", "*5\r\n:0\r\n"},
		{"shop", "RL.SLIDE other:1 5 60", noKey},
		{"shop", "RL.FIXED Shop:1 5 60", noKey},
		{"shop", "CL.THROTTLE other 5 1 60", noKey},
		{"shop", "RL.INSPECT other", noKey},
		{"shop", "RL.RESET shop:1", nope("rl.reset")},
		{"shop", "RL.HOTKEYS", "*0\r\n"},
		{"shop", "INFO", nope("info")},
		{"look", "RL.INSPECT shop:1", "*1\r\n"},
		{"look", "RL.SLIDE shop:1 5 60", noKey},
		{"look", "RL.RESET busy", ":0\r\n"},
		{"look", "RL.RESET busy shop:1", noKey},
		{"look", "RL.HOTKEYS COUNT 5", "*1\r\n*5\r\n$4\r\nbusy"},
		{"read", "RL.INSPECT other", "*0\r\n"},
		{"read", "RL.HOTKEYS COUNT 1", "*1\r\n"},
		{"read", "RL.SLIDE a 5 60", nope("rl.slide")},
		{"boss", "RL.SLIDE other 5 60", slide},
		{"some", "RL.SLIDE shop:1 5 60", slide},
		{"some", "RL.SLIDE all:1 5 60", slide},
		{"some", "RL.RESET all:1", noKey},
		{"some", "RL.RESET shop:1 all:1", noKey},
		{"some", "RL.INSPECT busy", "*0\r\n"},
		{"some", "RL.SLIDE busy 5 60", noKey},
		{"some", "RL.HOTKEYS COUNT 5", "*1\r\n*5\r\n$4\r\nbusy"},
		{"some", "PING", nope("ping")},
	} {
		s := open(h, 1)
		answer := ask(h, s, words("AUTH", c.user, ""), words(strings.Fields(c.line)...))
		answer, ok := strings.CutPrefix(answer, "+OK\r\n")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(answer, c.want), "%s: %s: %s", c.user, c.line, answer)
	}
	ask(h, open(h, 1), words("AUTH", "nobody", "x"))
	logins, commands, keys := h.Denied()
	require.Equal(t, []int64{1, 4, 9}, []int64{logins, commands, keys})
}

func TestWrongRules(t *testing.T) {
	for rule, want := range map[string]string{
		"hunter2":        `user "shop": rule 2: it is none that is known`,
		"":               "it is none that is known",
		"%X~hunter2":     "it is none that is known",
		"%~hunter2":      "it is none that is known",
		"%R":             "it is none that is known",
		"+rl.hunter2":    "unknown command or category name in ACL",
		"+@hunter2":      "unknown command or category name in ACL",
		"-client|hunter": "unknown command or category name in ACL",
		"+":              "unknown command or category name in ACL",
		"#hunter2":       "the password hash must be exactly 64 characters",
		"!hunter2":       "the password hash must be exactly 64 characters",
		"<hunter2":       "the password to be removed does not exist",
	} {
		_, err := NewACL([][]string{{"shop", "on", rule}}, "")
		require.ErrorContains(t, err, want, rule)
		require.NotContains(t, err.Error(), "hunter", rule)
	}
	for want, lines := range map[string][][]string{
		`the user "a" is there twice`:                 {{"a"}, {"a"}},
		"a user needs a name":                         {{}},
		"the default user's password is set twice":    {{"default", "on", ">x"}},
		"a pattern after ~* or allkeys has no effect": {{"a", "~*", "~b"}},
	} {
		_, err := NewACL(lines, "secret")
		require.ErrorContains(t, err, want)
	}
}

func TestACLList(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, "shop on >hunter2 >other ~shop:* %R~all:* +@ratelimit -rl.reset", "none", "some nopass ~* -@all +ping")
	h := New(cfg)
	list := ask(h, open(h, 1), words("ACL", "LIST"))
	for _, line := range []string{
		"user default on nopass ~* &* +@all",
		"user shop on #hidden #hidden ~shop:* %R~all:* &* -@all +@ratelimit -rl.reset",
		"user none off &* -@all",
		"user some off nopass ~* &* -@all +ping",
	} {
		require.Contains(t, list, "\r\n"+line+"\r\n")
	}
}

// New rules count from the next pipeline on.
func TestSetACL(t *testing.T) {
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
	require.Equal(t, "+PONG\r\n", ask(h, anonymous, words("PING")), "a new password is for new logins")
	require.Equal(t, "-NOAUTH Authentication required.\r\n", ask(h, open(h, 4), words("PING")))
	require.Equal(t, "+RESET\r\n-NOAUTH Authentication required.\r\n", ask(h, anonymous, words("RESET"), words("PING")))

	h.SetACL(users(t, "default off"))
	require.Equal(t, "-WRONGPASS invalid username-password pair or user is disabled.\r\n", ask(h, anonymous, words("AUTH", "default", "secret")))
	require.False(t, anonymous.Closing())
}

// TestRulesForOrdinaryCommands compares what users may send on to a node with what
// the node itself would let them.
func TestRulesForOrdinaryCommands(t *testing.T) {
	h, node := forwarding(t)
	rules := []string{
		"all reset on nopass ~* &* +@all",
		"shop reset on nopass ~shop:* &* +@all",
		"safe reset on nopass ~* &* +@all -@dangerous -set",
		"read reset on nopass %R~shop:* %W~log:* &* +@read +@write +@connection +select",
		"only reset on nopass ~shop:* &* +get +object|encoding +mset",
		"some reset on nopass ~shop:* &* +@all -get (~other +get +mset) (%R~log:* +@read)",
		"near reset on nopass &* +@connection (~other -@all +get) (~shop:* +set +mset) (%W~log:* +@write +strlen)",
		"gets reset on nopass &* (+get) (~shop:* +object) (~* +exists +zunionstore)",
		"none reset on nopass",
	}
	for _, r := range rules {
		require.NoError(t, node.Client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, fields(r)...)...).Err(), r)
	}
	h.SetACL(users(t, rules...))
	for _, user := range []string{"all", "shop", "safe", "read", "only", "some", "near", "gets", "none"} {
		pipeline := lines("AUTH " + user + ` x
			SET shop:1 a
			GET shop:1
			GET other
			SET other 1
			APPEND log:1 a
			SET log:1 b GET
			GET log:1
			MSET shop:1 a shop:2 b
			MSET shop:1 a other b
			MGET shop:1 other
			EXISTS other
			STRLEN log:1
			OBJECT ENCODING shop:1
			OBJECT FREQ other
			OBJECT WHAT other
			COPY shop:1 shop:3
			COPY shop:1 other
			COPY shop:1 log:2
			ZUNIONSTORE shop:4 2 shop:5 shop:6
			ZUNIONSTORE shop:4 2 shop:5 other
			XREAD COUNT 1 STREAMS shop:7 shop:8 0 0
			XREAD COUNT 1 STREAMS shop:7 other 0 0
			WHAT shop:1
			MULTI
			GET other
			EXEC
			DEL shop:1 log:1
			DEL other`)
		theirs := exchange(t, node.Addr, pipeline)
		require.NoError(t, node.Client.FlushAll(t.Context()).Err())
		ours := ask(h, open(h, 1), pipeline...)
		require.NoError(t, node.Client.FlushAll(t.Context()).Err())
		require.Equal(t, strings.ReplaceAll(theirs, "\r\n", "\n"), strings.ReplaceAll(ours, "\r\n", "\n"), user)
	}
	// What the node cannot hold against a user any more, because it sees the proxy's.
	for line, want := range map[string]string{
		"EVAL 'return' 0":                  "NOPERM this user has no permissions to run the 'eval' command",
		"EVALSHA a 1 shop:1":               "NOPERM this user has no permissions to run the 'evalsha' command",
		"SORT shop:1 BY nosort GET o:*":    errNoKey,
		"GEORADIUS shop:1 0 0 1 m STORE o": errNoKey,
		"MIGRATE h 1 shop:1 0 1":           errNoKey,
		"XREAD STREAMS STREAMS shop:1 0":   errNoKey,
	} {
		require.Equal(t, "+OK\r\n-"+want+"\r\n", ask(h, open(h, 1), words("AUTH", "shop", "x"), words(strings.Fields(line)...)), line)
	}
	h.SetACL(users(t, "free on nopass (~* +@all) (+get)"))
	require.Equal(t, "+OK\r\n$-1\r\n", ask(h, open(h, 1), lines("AUTH free x\nEVAL return 0")...))
	h.SetACL(users(t, rules...))
	// SET may read, with GET; without it Redis would allow this.
	require.Equal(t, "+OK\r\n-"+errNoKey+"\r\n", ask(h, open(h, 1), lines("AUTH read x\nSET log:1 a")...))
}

func fields(line string) (words []any) {
	for _, w := range strings.Fields(line) {
		words = append(words, w)
	}
	return words
}
