package acl

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvalidUsersAreRefused(t *testing.T) {
	for want, lines := range map[string][][]string{
		`the user "a" is defined twice`:               {{"a"}, {"a"}},
		"a user needs a name":                         {{}},
		"the default user's password is set twice":    {{"default", "on", ">x"}},
		"a pattern after ~* or allkeys has no effect": {{"a", "~*", "~b"}},
	} {
		_, err := New(lines, "secret", known)
		require.ErrorContains(t, err, want)
	}
}

func TestLoginNeedsAnEnabledUserAndAPassword(t *testing.T) {
	l := list(t, "shop on >one >two", "off >one", "open on nopass")
	for _, c := range []struct {
		name, password string
		want           bool
	}{
		{"shop", "one", true}, {"shop", "two", true}, {"shop", "three", false}, {"shop", "", false},
		{"off", "one", false}, {"open", "", true}, {"open", "x", true}, {"nobody", "one", false}, {"Shop", "one", false},
	} {
		u, ok := l.Login([]byte(c.name), []byte(c.password))
		require.Equal(t, c.want, ok, c.name+" "+c.password)
		if ok {
			require.Equal(t, c.name, u.Name)
		}
	}
	require.Equal(t, []string{"default", "off", "open", "shop"}, l.Names())
	require.Equal(t, "off", l.User("off").Name)
	require.Nil(t, l.User("nobody"))
}

// The last rule about a password, or about being on or off, applies. A rule removes only the password that it names.
func TestRulesChangeWhoMayLogIn(t *testing.T) {
	hash := func(password string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(password))) }
	for rules, want := range map[string]string{ // the passwords that log in
		"on >one >two":                         "one two",
		"on >one off":                          "",
		"on >one off on":                       "one",
		"on #" + hash("one"):                   "one",
		"on >one >two <one":                    "two",
		"on >one >two <two":                    "one",
		"on >one >two !" + hash("one"):         "two",
		"on >one resetpass":                    "",
		"on nopass resetpass":                  "",
		"on nopass":                            "one two three",
		"on >one nopass":                       "one two three",
		"on nopass >one":                       "one",
		"on nopass #" + hash("two"):            "two",
		"on >one reset":                        "",
		"on >one reset on":                     "",
		"on nopass reset on >three":            "three",
		"on >one >two >three resetpass >three": "three",
	} {
		l := list(t, "shop "+rules)
		var in []string
		for _, password := range []string{"one", "two", "three"} {
			if _, ok := l.Login([]byte("shop"), []byte(password)); ok {
				in = append(in, password)
			}
		}
		require.Equal(t, want, strings.Join(in, " "), rules)
	}
}

func TestAnonymousSessionsNeedADefaultUserWithoutPassword(t *testing.T) {
	for rules, want := range map[string]struct{ anonymous, needsPassword bool }{
		"default on nopass":  {true, false},
		"default off nopass": {false, false},
		"default on >x":      {false, true},
		"other on nopass":    {true, false},
	} {
		l := list(t, rules)
		require.Equal(t, want.anonymous, l.Anonymous() != nil, rules)
		require.Equal(t, want.needsPassword, l.NeedsPassword(), rules)
	}
	l, err := New(nil, "secret", known)
	require.NoError(t, err)
	require.Nil(t, l.Anonymous())
	require.True(t, l.User(DefaultUser).Unrestricted())
}

func TestRenewDropsUsersThatAreGoneOrOff(t *testing.T) {
	before := list(t, "a on nopass", "b on nopass", "c on nopass")
	after := list(t, "a on >x", "b off nopass")
	require.Same(t, after.User("a"), after.Renew(before.User("a")))
	require.Nil(t, after.Renew(before.User("b")))
	require.Nil(t, after.Renew(before.User("c")))
}

// The listed form of a user parses to the same permissions, unless a pattern in a selector ends
// with a parenthesis, which Redis cannot read back either.
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
		one, err := New(words(rules), "", known)
		if err != nil {
			return
		}
		for _, s := range one.users["a"].selectors[1:] {
			if slices.ContainsFunc(s.keys, func(k keyRule) bool { return strings.HasSuffix(k.pattern, ")") }) {
				return
			}
		}
		listed := strings.ReplaceAll(one.users["a"].String(), " #hidden", "")
		again, err := New(words(strings.TrimPrefix(listed, "user a")), "", known)
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
