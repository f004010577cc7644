package acl

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// The redis-server is configured to allow all channels, as rlproxy does.
func TestUsersAreListedAsByRedis(t *testing.T) {
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
	theirs, err := server.Client.Do(t.Context(), "ACL", "LIST").StringSlice()
	require.NoError(t, err)
	var ours []string
	l := list(t, rules...)
	for _, name := range l.Names() {
		ours = append(ours, l.User(name).String())
	}
	for i := range theirs {
		theirs[i] = strings.ReplaceAll(theirs[i], " sanitize-payload", "")
	}
	require.ElementsMatch(t, theirs, ours)
}

func TestCheckReturnsNoKeyIfASelectorAllowsTheCommand(t *testing.T) {
	u := list(t, "a on nopass ~own:* +ping (~shared:* +get) (~x +get)").User("a")
	for _, c := range []struct {
		command, key string
		want         Permission
	}{
		{"ping", "own:1", Allowed}, {"ping", "shared:1", NoKey}, {"get", "shared:1", Allowed},
		{"get", "x", Allowed}, {"get", "own:1", NoKey}, {"set", "own:1", NoCommand},
	} {
		verdict := u.Check(
			func(s *Selector) bool { return s.MayRun(c.command, func(string) bool { return false }) },
			func(s *Selector) bool { return s.MayKey([]byte(c.key), true, true) })
		require.Equal(t, c.want, verdict, c.command+" "+c.key)
	}
	require.False(t, u.Unrestricted())
	require.Len(t, u.Selectors(), 3)
}

func TestCheckDoesNotAllocate(t *testing.T) {
	u := list(t, "a on nopass ~own:* +ping (~shared:* +rl.slide)").User("a")
	key := []byte("shared:1")
	require.Zero(t, testing.AllocsPerRun(100, func() {
		u.Check(
			func(s *Selector) bool { return s.Allows("rl.slide") },
			func(s *Selector) bool { return s.AllKeys() || s.MayKey(key, true, true) })
	}))
}

// One selector must allow both a command and its key.
func TestRightsToACommandAndAKeyComeFromOneSelector(t *testing.T) {
	u := list(t, "a on nopass ~own:* +ping (%R~* +rl.inspect) (~shared:* +rl.reset)").User("a")
	for command, want := range map[string]bool{"ping": true, "rl.inspect": true, "rl.reset": true, "rl.slide": false, "unknown": false} {
		require.Equal(t, want, u.MayRun(command), command)
	}
	require.True(t, u.MayUse("rl.inspect", []byte("any"), true, false))
	require.False(t, u.MayUse("rl.inspect", []byte("own:1"), true, true), "another selector has the right to write")
	require.True(t, u.MayUse("rl.reset", []byte("shared:1"), true, true))
	require.False(t, u.MayUse("rl.reset", []byte("own:1"), true, true))
	require.True(t, u.MayReadAll("rl.inspect"))
	require.False(t, u.MayReadAll("rl.reset"), "another selector has the right to all keys")
	require.False(t, u.MayReadAll("rl.slide"))
}
