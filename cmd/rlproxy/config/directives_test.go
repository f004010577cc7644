package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestDirectivesSetTheirFields(t *testing.T) {
	c, err := read(`
# every kind of value
port 0
BIND 10.0.0.1 -::1 *
unixsocketperm 700
requirepass "two words"
timeout 60
protected-mode NO
maxmemory 1GB
proto-max-bulk-len 2m
client-output-buffer-limit NORMAL 1gb 0 0
loglevel Debug
backend redis://127.0.0.1:7001
backend rediss://u:p@[::1]:7002/3
backend-timeout 250
fail-policy api:* OPEN
fail-policy error
fail-policy login:* local
`)
	require.NoError(t, err)
	require.Equal(t, 0, c.Port)
	require.Equal(t, []string{"10.0.0.1", "-::1", "*"}, c.Bind)
	require.EqualValues(t, 0o700, c.UnixSocketPerm)
	require.Equal(t, "two words", c.RequirePass)
	require.Equal(t, time.Minute, c.Timeout)
	require.False(t, c.ProtectedMode)
	require.EqualValues(t, 1<<30, c.MaxMemory)
	require.EqualValues(t, 2_000_000, c.ProtoMaxBulk)
	require.EqualValues(t, 1<<30, c.OutputBuffer)
	require.Equal(t, "debug", c.LogLevel)
	require.Equal(t, []string{"redis://127.0.0.1:7001", "rediss://u:p@[::1]:7002/3"}, c.Backends)
	require.Equal(t, 250*time.Millisecond, c.BackendTimeout)
	require.Equal(t, engine.FailError, c.FailPolicy)
	require.Equal(t, []engine.FailRule{
		{Glob: "api:*", Fail: engine.FailOpen},
		{Glob: "login:*", Fail: engine.FailLocal},
	}, c.FailRules)
}

func TestMatchingShowsSettingsButNoSecrets(t *testing.T) {
	c, err := read("maxmemory 256mb\nmaxmemory-clients 1gb\nrequirepass hush\nbackend redis://u:hush@h\nlogfile 'a b'\nfail-policy a* open\npolicy web FIXED 5 3600\npolicy api SLIDE 7 60\npolicy-override web \"a b*\" BLOCKED\n")
	require.NoError(t, err)
	all := c.Matching("*")
	require.NotContains(t, fmt.Sprint(all), "hush")
	require.Contains(t, all, [2]string{"maxmemory", "268435456"})
	require.Contains(t, all, [2]string{"logfile", `"a b"`})
	require.Contains(t, all, [2]string{"unixsocket", ""})
	require.Contains(t, all, [2]string{"policy", "api SLIDE 7 1m web FIXED 5 1h"})
	require.Contains(t, all, [2]string{"policy-override", `web "a b*" BLOCKED`})
	require.Contains(t, all, [2]string{"fail-policy", "closed a* open"})
	require.Equal(t, [][2]string{{"maxclients", "10000"}, {"maxmemory-clients", "1073741824"}}, c.Matching("max*clients"))
}

// rlproxy.conf names every directive once with its default, and means the same as
// no file at all.
func TestShippedFileShowsEveryDefault(t *testing.T) {
	const path = "../../../rlproxy.conf"
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, d := range directives {
		setting := d.preset
		if setting == "" {
			setting = d.hint
		}
		re := regexp.MustCompile(`(?m)^(# )?` + regexp.QuoteMeta(d.Name+" "+setting) + `$`)
		require.Len(t, re.FindAll(b, -1), 1, "%s must have a line %q", path, d.Name+" "+setting)
	}
	c, err := Load([]string{path}, nil, memory)
	require.NoError(t, err)
	require.Equal(t, newConfig(memory), c)
	for _, d := range directives {
		require.Contains(t, Help(), "  "+d.Name+" ")
	}
}

// What CONFIG GET shows, CONFIG SET takes, and all lines of a directive are set at once.
func TestConfigSetTakesWhatConfigGetShows(t *testing.T) {
	c, err := read("fail-policy error\nfail-policy open local\nfail-policy 'a b*' open\nfail-policy '' closed\nhot-key \"x y\" 4\nhot-key * 2\nloglevel debug\npassthrough no\n")
	require.NoError(t, err)
	require.Equal(t, [][2]string{{"fail-policy", `error open local "a b*" open "" closed`}}, c.Matching("fail-policy"))
	other, settable := newConfig(memory), 0
	for i := range directives {
		d := &directives[i]
		if !d.BySet {
			continue
		}
		settable++
		require.True(t, d.Live && !d.secret, d.Name)
		require.Empty(t, d.Change(other, d.Setting(c)), d.Name)
		require.Equal(t, d.Setting(c), d.Setting(other), d.Name)
	}
	require.Positive(t, settable)
	require.Equal(t, c.FailRules, other.FailRules)
	require.Equal(t, c.HotKeys, other.HotKeys)

	for setting, now := range map[string]string{
		"fail-policy open":             "open",
		"fail-policy api:* open":       "closed api:* open",
		"fail-policy LOCAL a OPEN":     "local a open",
		"fail-policy a open b error":   "closed a open b error",
		`fail-policy open "" error`:    `open "" error`,
		"hot-key ":                     "",
		"hot-key a 2 b 3":              "a 2 b 3",
		"slowlog-log-slower-than  -1 ": "-1",
		"passthrough YES":              "yes",
	} {
		name, value, _ := strings.Cut(setting, " ")
		d := Find(name)
		require.Empty(t, d.Change(other, value), setting)
		require.Equal(t, now, d.Setting(other), setting)
	}
}

// Where Redis has a directive of that kind, its words say what is wrong.
func TestConfigSetSaysWhatIsAllowed(t *testing.T) {
	s := redistest.Start(t)
	for _, setting := range []string{
		"slowlog-max-len x", "slowlog-max-len ", "slowlog-max-len 1.5", "slowlog-max-len 99999999999999999999x",
		"loglevel quiet", "loglevel ", "loglevel notice notice",
	} {
		name, value, _ := strings.Cut(setting, " ")
		_, err := s.Ask("CONFIG", "SET", name, value)
		require.Error(t, err)
		_, why, _ := strings.Cut(err.Error(), "') - ")
		require.Equal(t, why, Find(name).Change(newConfig(memory), value), setting)
	}
	const policy = "argument must be closed, open, local or error, alone for all keys or after a glob for the keys that match it; "
	for setting, why := range map[string]string{
		"slowlog-log-slower-than -2":       "argument must be between -1 and 2147483647 inclusive",
		"slowlog-max-len 10001":            "argument must be between 0 and 10000 inclusive",
		"backend-timeout 0":                "argument must be between 1 and 60000 inclusive",
		"backend-timeout 10ms":             "argument couldn't be parsed into an integer",
		"passthrough maybe":                "argument must be 'yes' or 'no'",
		"fail-policy ":                     policy + "nothing was given",
		"fail-policy ajar":                 policy + `it was "ajar"`,
		"fail-policy closed api:* ajar":    policy + `it was "api:* ajar"`,
		"fail-policy closed closed open a": policy + `it was "open a"`,
		`fail-policy "open`:                "unbalanced quotes",
		"hot-key a":                        `argument must be a glob and the number of shards, from 1 to 1024; it was "a"`,
		"hot-key a 2 b 1025":               `argument must be a glob and the number of shards, from 1 to 1024; it was "b 1025"`,
		"layout-guard on":                  `argument must be off, warn or strict; it was "on"`,
	} {
		name, value, _ := strings.Cut(setting, " ")
		require.Equal(t, why, Find(name).Change(newConfig(memory), value), setting)
	}
}

// docs/operations.md says of every directive when it changes.
func TestTheTableOfChangesHasEveryDirective(t *testing.T) {
	b, err := os.ReadFile("../../../docs/operations.md")
	require.NoError(t, err)
	said := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| (SIGHUP or `CONFIG SET`|SIGHUP|a restart) \\| (.*?) \\|").FindAllStringSubmatch(string(b), -1) {
		for _, name := range regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[2], -1) {
			require.Empty(t, said[name[1]], name[1])
			said[name[1]] = row[1]
		}
	}
	for _, d := range directives {
		when := "a restart"
		switch {
		case d.value == nil:
			continue
		case d.BySet:
			when = "SIGHUP or `CONFIG SET`"
		case d.Live:
			when = "SIGHUP"
		}
		require.Equal(t, when, said[d.Name], "%s: docs/operations.md", d.Name)
		delete(said, d.Name)
	}
	require.Empty(t, said)
}

// A word with a blank is not two words: the first user may use one key, the second one two.
func TestChangesOfWordsAreFound(t *testing.T) {
	one, err := read("user a on nopass '~x ~y' +@all")
	require.NoError(t, err)
	two, err := read("user a on nopass ~x ~y +@all")
	require.NoError(t, err)
	merged, _ := one.With(two)
	require.Equal(t, two.Users, merged.Users)
}
