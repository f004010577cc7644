package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

// A redis-server and a Handler have the same users and must give them the same replies.
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
			ACL CAT read write
			acl cat read write
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

func TestRulesApplyToTheKeysOfRateLimitCommands(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t,
		"shop on nopass ~shop:* +@ratelimit -rl.reset",
		"look on nopass %R~shop:* ~busy +@ratelimit",
		"read on nopass ~* +@read",
		"boss on nopass ~* +@all",
		"safe on nopass ~* +@all -@dangerous",
		"part on nopass ~shop:* +@all",
		"seer on nopass %R~* ~shop:* +@all",
		"42 on nopass ~api:tenant:42 ~api:tenant:42:* +rl.check",
		"some on nopass ~shop:* +@ratelimit (~all:* +rl.slide) (%R~busy +@read) (~idle +rl.slide)")
	h := New(cfg)
	const slide = "*5\r\n:1\r\n:5\r\n:"
	nope := func(command string) string {
		return "-NOPERM this user has no permissions to run the '" + command + "' command\r\n"
	}
	notAll := func(command string) string {
		return "-NOPERM this user has no permissions to access all keys, as needed by the '" + command + "' command\r\n"
	}
	const noKey = "-NOPERM this user has no permissions to access one of the keys used as arguments\r\n"
	for _, c := range []struct{ user, line, want string }{
		{"shop", "RL.SLIDE shop:1 5 60", slide},
		{"shop", "RL.COUNTER shop:1 5 60", slide},
		{"shop", "CL.THROTTLE shop:2 5 1 60", "*5\r\n:0\r\n"},
		{"shop", "RL.SLIDE other:1 5 60", noKey},
		{"shop", "RL.FIXED Shop:1 5 60", noKey},
		{"shop", "CL.THROTTLE other 5 1 60", noKey},
		{"shop", "CL.THROTTLE", "-Cell error: Store error: Usage"}, // it has no key
		{"shop", "RL.INSPECT other", noKey},
		{"shop", "RL.RESET shop:1", nope("rl.reset")},
		{"shop", "RL.HOTKEYS", "*2\r\n*5\r\n$6\r\nshop:1"},
		{"shop", "INFO", nope("info")},
		{"look", "RL.INSPECT shop:1", "*2\r\n*32\r\n"},
		{"look", "RL.SLIDE shop:1 5 60", noKey},
		{"look", "RL.RESET busy", ":0\r\n"},
		{"look", "RL.RESET busy shop:1", noKey},
		{"look", "RL.HOTKEYS COUNT 5", "*3\r\n*5\r\n$4\r\nbusy"},
		{"read", "RL.INSPECT other", "*0\r\n"},
		{"read", "RL.HOTKEYS COUNT 1", "*1\r\n"},
		{"read", "RL.SLIDE a 5 60", nope("rl.slide")},
		{"boss", "RL.SLIDE other 5 60", slide},
		{"42", "RL.CHECK api tenant:42", slide[:9] + "2\r\n:"},
		{"42", "RL.CHECK api tenant:42:login COST 2", slide[:9] + "9\r\n:"},
		{"42", "RL.CHECK api tenant:43", noKey},
		{"42", "RL.CHECK web tenant:42", noKey},
		{"42", "RL.CHECK api api:tenant:42", noKey},
		{"42", "RL.CHECK api:tenant 42", "-ERR no such policy 'api:tenant'\r\n"}, // it has the right, but no policy
		{"42", "RL.CHECK nothing tenant:42", noKey},
		{"42", "RL.SLIDE api:tenant:42 5 60", nope("rl.slide")},
		{"42", "RL.INSPECT api:tenant:42", nope("rl.inspect")},
		{"shop", "RL.CHECK api tenant:42", noKey},
		{"boss", "RL.CHECK api tenant:42", slide[:9] + "2\r\n:"},
		{"shop", "RL.POLICY SET mail SLIDE 5 60", nope("rl.policy|set")}, // no tenant's command, and in no category of tenants
		{"shop", "RL.POLICY OVERRIDE api shop:1 5000 60", nope("rl.policy|override")},
		{"shop", "RL.POLICY DEL api", nope("rl.policy|del")},
		{"shop", "RL.POLICY LIST", nope("rl.policy|list")},
		{"safe", "RL.POLICY SET mail SLIDE 5 60", nope("rl.policy|set")},
		{"safe", "RL.POLICY DEL mail", nope("rl.policy|del")},
		{"safe", "RL.POLICY GET web", "*26\r\n$4\r\nname"},
		{"read", "RL.POLICY LIST", "*2\r\n*26\r\n"},
		{"read", "RL.POLICY OVERRIDE web a BLOCKED", nope("rl.policy|override")},
		{"boss", "RL.POLICY SET mail SLIDE 5 60", "*4\r\n$7\r\nversion\r\n:1\r\n"},
		{"part", "RL.POLICY SET mail SLIDE 5 60", notAll("rl.policy|set")}, // policies are about the keys of others, too
		{"part", "RL.POLICY OVERRIDE api shop:1 5000 60", notAll("rl.policy|override")},
		{"part", "RL.POLICY DEL api", notAll("rl.policy|del")},
		{"part", "RL.POLICY LIST", notAll("rl.policy|list")},
		{"part", "RL.POLICY GET api", notAll("rl.policy|get")},
		{"part", "RL.POLICY HELP", "*"},
		{"seer", "RL.POLICY SET mail SLIDE 5 60", notAll("rl.policy|set")},
		{"seer", "RL.POLICY GET web", "*26\r\n$4\r\nname"},
		{"some", "RL.SLIDE shop:1 5 60", slide},
		{"some", "RL.SLIDE all:1 5 60", slide},
		{"some", "RL.RESET all:1", noKey},
		{"some", "RL.RESET shop:1 all:1", noKey},
		{"some", "RL.INSPECT busy", "*0\r\n"},
		{"some", "RL.SLIDE busy 5 60", noKey},
		{"some", "RL.HOTKEYS COUNT 5", "*3\r\n*5\r\n$4\r\nbusy"},
		{"some", "RL.HOTKEYS FLEET", "*1\r\n*5\r\n$4\r\nbusy"},
		{"shop", "RL.HOTKEYS FLEET", "*0\r\n"},
		{"some", "PING", nope("ping")},
		{"shop", "RL.SLIDE shop:a 5 60 AND shop:b 5 60", "*2\r\n" + slide},
		{"shop", "RL.SLIDE shop:a 5 60 AND other 5 60", noKey},
		{"shop", "RL.SLIDE other 5 60 AND shop:a 5 60", noKey},
		{"shop", "RL.SLIDE shop:a 5 60 ID AND AND other 5 60", noKey},
		{"shop", "RL.COUNTER shop:c 5 60 STRICT COST 1 AND shop:b 5 60 AND other 5 60", noKey},
		{"shop", "RL.SLIDE shop:a 5 60 ID AND", slide}, // the value of an option
		{"shop", "RL.FIXED shop:a 5 60 AND", "-ERR syntax error: AND must be followed by a key, a limit and a window\r\n"},
		{"some", "RL.SLIDE shop:a 5 60 AND all:a 5 60", noKey}, // one selector for both keys
		{"some", "RL.SLIDE all:a 5 60 AND all:b 5 60", "*2\r\n" + slide},
		{"42", "RL.CHECK api tenant:42 COST 0 AND api tenant:42:x COST 0", "*2\r\n*5\r\n:0\r\n:2\r\n"},
		{"42", "RL.CHECK api tenant:42 AND web tenant:42", noKey},
		{"42", "RL.CHECK web tenant:42 AND api tenant:42", noKey},
		{"42", "RL.CHECK api tenant:42 ID AND AND api tenant:43", noKey},
		{"shop", "RL.RESERVE other 5 60 COST 1 ID x", noKey},
		{"shop", "RL.SETTLE other x 1", noKey},
		{"shop", "RL.ACQUIRE other 5 ID x", noKey},
		{"shop", "RL.RENEW other x", noKey},
		{"shop", "RL.RELEASE other shop:x", noKey},
		{"shop", "RL.RELEASE shop:x other", ":0\r\n"}, // an id
		{"look", "RL.RESERVE shop:1 5 60 COST 1 ID x", noKey},
	} {
		s := open(h, 1)
		answer := ask(h, s, words("AUTH", c.user, ""), words(strings.Fields(c.line)...))
		answer, ok := strings.CutPrefix(answer, "+OK\r\n")
		require.True(t, ok)
		require.True(t, strings.HasPrefix(answer, c.want), "%s: %s: %s", c.user, c.line, answer)
	}
	ask(h, open(h, 1), words("AUTH", "nobody", "x"))
	logins, commands, keys := h.Denied()
	require.Equal(t, []int64{1, 13, 34}, []int64{logins, commands, keys})
}

// The node has the same users. rlproxy must forward what the node itself would allow them.
func TestRulesForForwardedCommandsAreThoseOfRedis(t *testing.T) {
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
			GET
			INCR other x
			OBJECT FREQ
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
	// What the node could not check, because it sees only rlproxy's own user.
	for line, want := range map[string]string{
		"EVAL 'return' 0":                  "NOPERM this user has no permissions to run the 'eval' command",
		"EVALSHA a 1 shop:1":               "NOPERM this user has no permissions to run the 'evalsha' command",
		"SORT shop:1 BY nosort GET o:*":    reply.ErrNoKey,
		"GEORADIUS shop:1 0 0 1 m STORE o": reply.ErrNoKey,
		"MIGRATE h 1 shop:1 0 1":           reply.ErrNoKey,
		"XREAD STREAMS STREAMS shop:1 0":   reply.ErrNoKey,
	} {
		require.Equal(t, "+OK\r\n-"+want+"\r\n", ask(h, open(h, 1), words("AUTH", "shop", "x"), words(strings.Fields(line)...)), line)
	}
	h.SetACL(users(t, "free on nopass (~* +@all) (+get)"))
	require.Equal(t, "+OK\r\n$-1\r\n", ask(h, open(h, 1), lines("AUTH free x\nEVAL return 0")...))
	h.SetACL(users(t, rules...))
	// SET may read, with GET; without it Redis would allow this.
	require.Equal(t, "+OK\r\n-"+reply.ErrNoKey+"\r\n", ask(h, open(h, 1), lines("AUTH read x\nSET log:1 a")...))
}

// What a node tells of all keys is only for users who may read them all. Redis lets users with
// key patterns run SCAN, RANDOMKEY and DBSIZE; tenants who share nodes must not.
func TestCommandsAboutAllKeysNeedAllKeys(t *testing.T) {
	h, node := forwarding(t)
	require.NoError(t, node.Client.Set(t.Context(), "other", "secret", 0).Err())
	h.SetACL(users(t,
		"tenant on nopass ~shop:* +@all",
		"parts on nopass ~shop:* +@all (%W~* +@all)",
		"reader on nopass ~shop:* +@all (%R~* +@all)",
		"boss on nopass ~* -@all +@all -get"))
	for line, name := range map[string]string{
		"SCAN 0": "scan", "SCAN 0 MATCH shop:* COUNT 10": "scan", "RANDOMKEY": "randomkey", "DBSIZE": "dbsize", "MEMORY STATS": "memory|stats",
	} {
		for user, allowed := range map[string]bool{"tenant": false, "parts": false, "reader": name != "memory|stats", "boss": true} {
			answer := ask(h, open(h, 1), words("AUTH", user, ""), words(strings.Fields(line)...))
			want := "+OK\r\n-" + reply.ErrNotAll + name + "' command\r\n"
			require.Equal(t, allowed, answer != want, "%s %s: %s", user, line, answer)
			require.Equal(t, allowed, !strings.Contains(answer, "NOPERM"), "%s %s: %s", user, line, answer)
		}
	}
	for _, line := range []string{"LOLWUT", "SCRIPT HELP", "XINFO HELP", "ACL GENPASS 5", "SCAN"} {
		answer := ask(h, open(h, 1), words("AUTH", "tenant", ""), words(strings.Fields(line)...))
		require.Equal(t, line == "ACL GENPASS 5" || line == "SCRIPT HELP", strings.Contains(answer, "NOPERM"), answer)
	}
	_, _, keys := h.Denied()
	require.EqualValues(t, 12, keys)
}

// Rules of different selectors are not combined, and the error is that of the selector that
// allows most.
func TestSelectorsAreThoseOfRedis(t *testing.T) {
	server := redistest.Start(t)
	rules := []string{
		"root reset on nopass ~own:* &* +@all (~shared:* +ping) (%R~x:* +@read)",
		"near reset on nopass ~own:* &* +ping (~a:* +watch +role) (~b:* +watch) ()",
		"far reset on nopass ~* &* +ping (+watch) (+echo)",
		"parts reset on nopass &* (~a:* ~b:*) (+watch) ( %R~r:* %W~w:* &c +watch -@connection +ping )",
		"keys reset on nopass allkeys &* (+watch) (~a:* +@transaction -exec)",
		"free reset on nopass &* +ping (~none) (allkeys allcommands)",
		"cleared reset on nopass ~own:* &* +@all (~a:* +@all) clearselectors (~b:* +watch)",
		"fresh nopass +@all (~* +@all) reset on nopass (+ping) ~*",
		"later reset on nopass (~a:* -ping +@all -echo +client|getname) &* +ping ~own:*",
	}
	for _, r := range rules {
		require.NoError(t, setUser(t, server, r), r)
	}
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, rules...)
	for _, r := range rules {
		name, _, _ := strings.Cut(r, " ")
		compare(t, server.Addr, cfg, "AUTH "+name+` x
			PING
			ECHO a
			ROLE
			ACL WHOAMI
			CLIENT GETNAME
			CLIENT SETNAME me
			WATCH own:1
			WATCH shared:1
			WATCH own:1 shared:1
			WATCH a:1
			WATCH b:1
			WATCH a:1 b:1
			WATCH x:1
			WATCH r:1 w:1
			MULTI
			ECHO a
			EXEC
			DISCARD`)
	}
}
