package policy

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/word"
)

// args splits a line into the words of a command.
func args(t testing.TB, line string) (words [][]byte) {
	t.Helper()
	all, err := word.SplitLine(line)
	require.NoError(t, err)
	for _, w := range all {
		words = append(words, []byte(w))
	}
	return words
}

func TestAChangeMakesAnotherSet(t *testing.T) {
	s := parse(t, "policy api SLIDE 100 60\npolicy-override api b* 5 60\npolicy web FIXED 5 60\n")
	before := s.Text()
	steps := []struct {
		change func(s *Set) *Set
		want   string
	}{
		{set("mail COUNTER 5 60 BUCKETS 6"), "policy api SLIDE 100 1m|policy-override api b* 5 1m|policy mail COUNTER 5 1m BUCKETS 6|policy web FIXED 5 1m|"},
		{set("api COUNTER 7 1s 9 1m FAIL OPEN"), "policy api COUNTER 7 1s 9 1m FAIL OPEN|policy-override api b* 5 1m|policy mail COUNTER 5 1m BUCKETS 6|policy web FIXED 5 1m|"},
		{override("api a BLOCKED"), "policy api COUNTER 7 1s 9 1m FAIL OPEN|policy-override api a BLOCKED|policy-override api b* 5 1m|policy mail COUNTER 5 1m BUCKETS 6|policy web FIXED 5 1m|"},
		{override("api b* 6 1h"), "policy api COUNTER 7 1s 9 1m FAIL OPEN|policy-override api a BLOCKED|policy-override api b* 6 1h|policy mail COUNTER 5 1m BUCKETS 6|policy web FIXED 5 1m|"},
		{without("api", "b*"), "policy api COUNTER 7 1s 9 1m FAIL OPEN|policy-override api a BLOCKED|policy mail COUNTER 5 1m BUCKETS 6|policy web FIXED 5 1m|"},
		{without("mail"), "policy api COUNTER 7 1s 9 1m FAIL OPEN|policy-override api a BLOCKED|policy web FIXED 5 1m|"},
		{without("api"), "policy web FIXED 5 1m|"},
	}
	next := s
	for _, step := range steps {
		old, text := next, next.Text()
		next = step.change(next)
		require.Equal(t, step.want, strings.ReplaceAll(next.Text(), "\n", "|"))
		require.Equal(t, text, old.Text(), "the old set is unchanged")
		require.Equal(t, parse(t, next.Text()), next, "the new set equals what its text parses to")
	}
	require.Equal(t, before, s.Text())
	for _, names := range [][]string{{"none"}, {"none", "a"}, {"web", "a"}} {
		same, found := remove(next, names...)
		require.False(t, found)
		require.Same(t, next, same)
	}
}

func set(line string) func(*Set) *Set {
	return func(s *Set) *Set { return must(s.WithPolicy(wordsOf(line))) }
}

func override(line string) func(*Set) *Set {
	return func(s *Set) *Set { return must(s.WithOverride(wordsOf(line))) }
}

func without(names ...string) func(*Set) *Set {
	return func(s *Set) *Set {
		next, found := remove(s, names...)
		if !found {
			panic(names)
		}
		return next
	}
}

// remove removes a policy, or one of its overrides.
func remove(s *Set, names ...string) (*Set, bool) {
	if len(names) == 1 {
		return s.Without([]byte(names[0]))
	}
	return s.WithoutOverride([]byte(names[0]), []byte(names[1]))
}

func must(s *Set, msg string) *Set {
	if msg != "" {
		panic(msg)
	}
	return s
}

func wordsOf(line string) (words [][]byte) {
	for w := range strings.FieldsSeq(line) {
		words = append(words, []byte(w))
	}
	return words
}

func TestAnInvalidChangeChangesNothing(t *testing.T) {
	s := parse(t, "policy api COUNTER 100 60 BUCKETS 10\npolicy-override api b* 5 20ms\n")
	for line, want := range map[string]string{
		"":                              "ERR policy name must be 1 to 64 letters, digits, _, . and -; nothing was given",
		`"a b" SLIDE 5 60`:              "ERR policy name must be 1 to 64 letters, digits, _, . and -; it was 'a b'",
		"api SLIDE 5 60 COST 1":         "ERR syntax error: unknown option 'COST'; expected SHARDS, FAIL, SHADOW or another limit",
		"api COUNTER 5 60 BUCKETS 21":   "ERR buckets must not exceed the window's milliseconds; buckets was 21, the window 20ms of the override 'b*'",
		"api COUNTER 5 10ms BUCKETS 11": "ERR buckets must not exceed the window's milliseconds; buckets was 11, the window 10ms",
	} {
		next, msg := s.WithPolicy(args(t, line))
		require.Equal(t, want, msg, line)
		require.Nil(t, next)
	}
	for line, want := range map[string]string{
		"":                          "ERR policy name must be 1 to 64 letters, digits, _, . and -; nothing was given",
		"web k 5 60":                "ERR no such policy 'web'",
		"api":                       "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; nothing was given",
		"api a*b 5 60":              "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was 'a*b'",
		"api [ab]* 5 60":            "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8, without ? and [; it was '[ab]*'",
		"api a?c BLOCKED":           "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8, without ? and [; it was 'a?c'",
		"api ?*? BLOCKED":           "ERR pattern must be a key, a key prefix followed by *, or a network such as 10.0.0.0/8; it was '?*?'",
		"api 10.0.0.1/8 5 60":       "ERR pattern is a network that is written as 10.0.0.0/8; it was '10.0.0.1/8'",
		"api 2001:DB8::/32 5 60":    "ERR pattern is a network that is written as 2001:db8::/32; it was '2001:DB8::/32'",
		"api ::ffff:a00:0/104 5 60": "ERR pattern is a network that is written as 10.0.0.0/8; it was '::ffff:a00:0/104'",
		"api k":                     "ERR syntax error: an override has limits and windows, or UNLIMITED or BLOCKED",
		"api k 5 9ms":               "ERR buckets must not exceed the window's milliseconds; buckets was 10, the window 9ms",
		"api k BLOCKED x":           "ERR syntax error: nothing follows UNLIMITED or BLOCKED; it was 'x'",
		"api k 5 60 x y":            "ERR syntax error: unknown option 'x'; expected another limit",
	} {
		next, msg := s.WithOverride(args(t, line))
		require.Equal(t, want, msg, line)
		require.Nil(t, next)
	}
}

func TestSetsAreBounded(t *testing.T) {
	var b Builder
	for i := range MaxPolicies {
		require.NoError(t, b.Add(PolicyLine, []string{fmt.Sprint("p", i), "SLIDE", "5", "60"}))
	}
	require.EqualError(t, b.Add(PolicyLine, []string{"one-more", "SLIDE", "5", "60"}), "too many policies: at most 4096")
	for i := range MaxOverrides {
		require.NoError(t, b.Add(OverrideLine, []string{fmt.Sprint("p", i%MaxPolicies), fmt.Sprint("k", i, "*"), "BLOCKED"}))
	}
	require.EqualError(t, b.Add(OverrideLine, []string{"p0", "one-more", "BLOCKED"}), "too many overrides: at most 65536")
	s := b.Set()
	_, msg := s.WithPolicy(args(t, "one-more SLIDE 5 60"))
	require.Equal(t, "ERR too many policies: at most 4096", msg)
	_, msg = s.WithOverride(args(t, "p0 one-more BLOCKED"))
	require.Equal(t, "ERR too many overrides: at most 65536", msg)
	require.Equal(t, MaxOverrides, must(s.WithOverride(args(t, "p0 k0* UNLIMITED"))).Overrides(), "an existing override may change")
	must(s.WithPolicy(args(t, "p0 FIXED 5 60")))

	b = Builder{}
	require.NoError(t, b.Add(PolicyLine, []string{"p", "SLIDE", "5", "60"}))
	line := len("policy-override p " + strings.Repeat("x", 4000) + " BLOCKED\n")
	n := (MaxText - len("policy p SLIDE 5 1m\n")) / line
	for i := range n {
		require.NoError(t, b.Add(OverrideLine, []string{"p", fmt.Sprintf("%04000d", i), "BLOCKED"}))
	}
	require.EqualError(t, b.Add(OverrideLine, []string{"p", strings.Repeat("x", 4000), "BLOCKED"}), "too many bytes of policies: at most 8388608")
	s = b.Set()
	require.LessOrEqual(t, len(s.Text()), MaxText)
	require.Equal(t, s, parse(t, s.Text()))
	_, msg = s.WithOverride(args(t, "p "+strings.Repeat("x", 4000)+" BLOCKED"))
	require.Equal(t, "ERR too many bytes of policies: at most 8388608", msg)

	left := MaxText - len(s.Text()) - len("policy q SLIDE 5 1m\n") // fill all but the room for one more policy
	require.NoError(t, b.Add(OverrideLine, []string{"p", strings.Repeat("x", left-len("policy-override p  BLOCKED\n")), "BLOCKED"}))
	require.EqualError(t, b.Add(PolicyLine, []string{"qq", "SLIDE", "5", "60"}), "too many bytes of policies: at most 8388608")
	require.NoError(t, b.Add(PolicyLine, []string{"q", "SLIDE", "5", "60"}))
	require.Len(t, b.Set().Text(), MaxText)
	require.EqualError(t, b.Add(OverrideLine, []string{"q", "k", "BLOCKED"}), "too many bytes of policies: at most 8388608")
}

func TestABuilderClearsLinesByTheirFirstWord(t *testing.T) {
	var b Builder
	add := func(line string) {
		words := strings.Fields(line)
		require.NoError(t, b.Add(words[0], words[1:]))
	}
	add("policy a SLIDE 5 60")
	add("policy-override a x BLOCKED")
	first := b.Set()
	b.Clear(OverrideLine)
	add("policy-override a y BLOCKED")
	require.Equal(t, "policy a SLIDE 5 1m\npolicy-override a y BLOCKED\n", b.Set().Text())
	b.Clear(PolicyLine)
	require.Empty(t, b.Set().Text())
	add("policy a FIXED 5 60")
	require.Equal(t, "policy a FIXED 5 1m\n", b.Set().Text())
	require.Equal(t, "policy a SLIDE 5 1m\npolicy-override a x BLOCKED\n", first.Text())
}

// What looks as if it matched many keys, and would match none, is refused; a key with a similar text is not.
func TestPatternsAreKeysAndPrefixes(t *testing.T) {
	t.Parallel()
	for _, right := range []string{
		"a", "*", "a*", "a]", "a\\*", "2001:db8::1", "2001:db8::*", "10.0.0.1", "10.0.0.*", "10.0.0.0/8*", "/", "/login", "/v1/*", "10.0.0.1/8/x", "a/8",
		"10.0.0.0/8", "10.1.2.3/32", "2001:db8::/32", "::/0", "10.0.0.0/33", "10.0.0.0/08", "fe80::1%eth0/64", "day/7", "\x00\xff*", "{a}", "^a$", "a,b", "!a",
	} {
		require.Empty(t, CheckPattern("api", []byte(right)), right)
	}
	for _, wrong := range []string{"", "**", "*a", "a*b", "?", "a?", "?*", "[", "[a", "a[*", "[2001:db8::1]:80"} {
		msg := CheckPattern("api", []byte(wrong))
		require.True(t, strings.HasPrefix(msg, errPattern), "%s: %s", wrong, msg)
		require.True(t, strings.HasSuffix(msg, "it was '"+wrong+"'"), msg)
		_, err := Parse("policy api SLIDE 5 60\npolicy-override api \"" + wrong + "\" BLOCKED")
		require.EqualError(t, err, "line 2: "+strings.TrimPrefix(msg, "ERR "))
	}
}
