package acl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// selector parses rules without parentheses.
func selector(t *testing.T, rules string) *Selector {
	return &list(t, "a "+rules).User("a").Selectors()[0]
}

func TestMayKeyNeedsOneRuleForReadingAndWriting(t *testing.T) {
	s := selector(t, "~both:* %R~seen:* %W~log:*")
	for _, c := range []struct {
		key         string
		read, write bool
		want        bool
	}{
		{"both:1", true, true, true}, {"seen:1", true, false, true}, {"seen:1", false, true, false}, {"log:1", false, true, true},
		{"log:1", true, true, false}, {"log:1", false, false, true}, {"Both:1", true, false, false}, {"", false, false, false},
	} {
		require.Equal(t, c.want, s.MayKey([]byte(c.key), c.read, c.write), "%+v", c)
	}
	require.False(t, s.AllKeys())
	require.True(t, selector(t, "allkeys").AllKeys())
	require.True(t, selector(t, "allkeys").MayKey([]byte("a"), true, true))
}

func TestMayRunFollowsTheLastRuleThatApplies(t *testing.T) {
	read := func(category string) bool { return category == "@read" }
	write := func(category string) bool { return category == "@write" }
	s := selector(t, "+@read +set -get +client|id -client +client|list")
	for _, c := range []struct {
		name string
		in   func(string) bool
		want bool
	}{
		{"strlen", read, true}, {"get", read, false}, {"set", write, true}, {"setex", write, false},
		{"client|id", write, false}, {"client|list", write, true}, {"client", write, false},
	} {
		require.Equal(t, c.want, s.MayRun(c.name, c.in), c.name)
	}
	require.True(t, s.Allows("client|list"))
	require.False(t, s.Allows("client|id"))
	require.False(t, s.Allows("strlen"), "not a known command")
}
