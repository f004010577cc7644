package commands

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// setUser gives a redis-server a user as a configuration has it.
func setUser(t *testing.T, server *redistest.Server, line string) error {
	return server.Client.Do(t.Context(), append([]any{"ACL", "SETUSER"}, fields(line)...)...).Err()
}

// TestSelectorsAreThoseOfRedis holds that selectors are not mixed, and that a refusal
// tells of the one that came nearest.
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

// TestSelectorsAreListed compares lines with those of a redis-server on which, as
// here, channels are open to all.
func TestSelectorsAreListed(t *testing.T) {
	server := redistest.Start(t, "--acl-pubsub-default", "allchannels")
	rules := []string{
		"a reset on nopass ~own:* +@all (~shared:* +get) (%R~x:* +@read)",
		"b reset (~* +@all) () ( allkeys +@all -@all )",
		"c reset ~c (%RW~a %W~b allcommands -get) nopass ( +client|id )",
		"d reset (+get) on clearselectors (~* +@all -ping)",
		"e reset (+get) ~e reset",
	}
	for _, r := range rules {
		require.NoError(t, setUser(t, server, r), r)
	}
	cfg := testConfig(newFakeEngine())
	cfg.ACL = users(t, rules...)
	theirs, err := server.Client.Do(t.Context(), "ACL", "LIST").StringSlice()
	require.NoError(t, err)
	var ours []string
	for _, name := range cfg.ACL.names() {
		ours = append(ours, cfg.ACL.users[name].String())
	}
	for i := range theirs {
		theirs[i] = strings.ReplaceAll(theirs[i], " sanitize-payload", "")
	}
	require.ElementsMatch(t, theirs, ours)
}

// TestWrongSelectors gives a redis-server the same mistakes, which it refuses too.
func TestWrongSelectors(t *testing.T) {
	server := redistest.Start(t)
	for rules, want := range map[string]string{
		"(":                  "rule 1: unmatched parenthesis in acl selector",
		"(~a +get":           "rule 1: unmatched parenthesis in acl selector",
		"on (~a) (~b +get":   "rule 3: unmatched parenthesis in acl selector",
		"(~a +get)x on":      "rule 1: unmatched parenthesis in acl selector",
		"(hunter2":           "rule 1: unmatched parenthesis in acl selector",
		"on )":               "rule 2: it is none that is known",
		"~a +get)":           "rule 2: unknown command or category name in ACL",
		"(~a +get))":         "rule 1: rule 2 of the selector: unknown command or category name in ACL",
		"((~a +get))":        "rule 1: rule 1 of the selector: a selector has only rules about commands, keys and channels",
		"(~a) (~b (+get)":    "rule 2: rule 2 of the selector: a selector has only rules",
		"~a (~b +get on) on": "rule 2: rule 3 of the selector: a selector has only rules",
		"(off)":              "a selector has only rules about commands, keys and channels",
		"(nopass)":           "a selector has only rules about commands, keys and channels",
		"(>hunter2)":         "a selector has only rules about commands, keys and channels",
		"(resetpass)":        "a selector has only rules about commands, keys and channels",
		"(reset)":            "a selector has only rules about commands, keys and channels",
		"(clearselectors)":   "a selector has only rules about commands, keys and channels",
		"(sanitize-payload)": "a selector has only rules about commands, keys and channels",
		"(hunter2)":          "a selector has only rules about commands, keys and channels",
		"(%X~a)":             "a selector has only rules about commands, keys and channels",
		"(+rl.hunter2)":      "rule 1: rule 1 of the selector: unknown command or category name in ACL",
		"(+@hunter2)":        "unknown command or category name in ACL",
		"(+)":                "unknown command or category name in ACL",
		"(~* ~a)":            "a pattern after ~* or allkeys has no effect",
	} {
		_, err := NewACL([][]string{append([]string{"shop"}, strings.Fields(rules)...)}, "")
		require.ErrorContains(t, err, want, rules)
		require.NotContains(t, err.Error(), "hunter", rules)
		require.Error(t, setUser(t, server, "shop "+rules), rules)
	}
	// One word, as quotes in a configuration make it.
	_, err := NewACL([][]string{{"shop", "(~a +get)", "(~b\t+set)"}}, "")
	require.NoError(t, err)
	// Redis would take the quotes off.
	_, err = NewACL([][]string{{"shop", `(~'a`, `b' +get)`}}, "")
	require.ErrorContains(t, err, "quotes in a selector are not supported")
}

// FuzzUsers reads any rules. What is listed of a user says the same of what it may do,
// unless a selector's pattern ends as a selector does: Redis cannot read that back either.
func FuzzUsers(f *testing.F) {
	for _, rules := range []string{
		"on >secret ~shop:* +@ratelimit -rl.reset",
		"on nopass ~own:* +@all (~shared:* +get +rl.slide) (%R~x:* +@read)",
		"(~* &* +@all) clearselectors ( %W~a allcommands -@read ) () reset ~b)",
		"((~a)) (+get +get) resetkeys) ~a(b",
	} {
		f.Add(rules)
	}
	f.Fuzz(func(t *testing.T, rules string) {
		words := func(rules string) [][]string { return [][]string{append([]string{"a"}, strings.Fields(rules)...)} }
		one, err := NewACL(words(rules), "")
		if err != nil {
			return
		}
		for _, s := range one.users["a"].selectors[1:] {
			if slices.ContainsFunc(s.keys, func(k keyRule) bool { return strings.HasSuffix(k.pattern, ")") }) {
				return
			}
		}
		listed := strings.ReplaceAll(one.users["a"].String(), " #hidden", "")
		again, err := NewACL(words(strings.TrimPrefix(listed, "user a")), "")
		require.NoError(t, err, listed)
		require.Equal(t, listed, again.users["a"].String())
		require.Len(t, again.users["a"].selectors, len(one.users["a"].selectors))
		require.Equal(t, one.users["a"].free, again.users["a"].free)
		for i, s := range one.users["a"].selectors {
			require.Equal(t, s.keys, again.users["a"].selectors[i].keys)
			require.Equal(t, s.allowed, again.users["a"].selectors[i].allowed)
		}
	})
}
