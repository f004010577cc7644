package main

import (
	"fmt"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine"
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
	require.Equal(t, 0, c.port)
	require.Equal(t, []string{"10.0.0.1", "-::1", "*"}, c.bind)
	require.EqualValues(t, 0o700, c.unixSocketPerm)
	require.Equal(t, "two words", c.requirePass)
	require.Equal(t, time.Minute, c.timeout)
	require.False(t, c.protectedMode)
	require.EqualValues(t, 1<<30, c.maxMemory)
	require.EqualValues(t, 2_000_000, c.protoMaxBulk)
	require.EqualValues(t, 1<<30, c.outputBuffer)
	require.Equal(t, "debug", c.logLevel)
	require.Equal(t, []string{"redis://127.0.0.1:7001", "rediss://u:p@[::1]:7002/3"}, c.backends)
	require.Equal(t, 250*time.Millisecond, c.backendTimeout)
	require.Equal(t, engine.FailError, c.failPolicy)
	require.Equal(t, []engine.FailRule{
		{Glob: "api:*", Policy: engine.FailOpen},
		{Glob: "login:*", Policy: engine.FailLocal},
	}, c.failRules)
}

func TestMatchingShowsSettingsButNoSecrets(t *testing.T) {
	c, err := read("maxmemory 256mb\nmaxmemory-clients 1gb\nrequirepass hush\ntls-key-file-pass hush\nbackend-tls-key-file-pass hush\nbackend redis://u:hush@h\nlogfile 'a b'\nfail-policy a* open\npolicy web FIXED 5 3600\npolicy api SLIDE 7 60\npolicy-override web \"a b*\" BLOCKED\n")
	require.NoError(t, err)
	all := c.matching("*")
	require.NotContains(t, fmt.Sprint(all), "hush")
	require.Contains(t, all, [2]string{"maxmemory", "268435456"})
	require.Contains(t, all, [2]string{"logfile", `"a b"`})
	require.Contains(t, all, [2]string{"unixsocket", ""})
	require.Contains(t, all, [2]string{"policy", "api SLIDE 7 1m web FIXED 5 1h"})
	require.Contains(t, all, [2]string{"policy-override", `web "a b*" BLOCKED`})
	require.Contains(t, all, [2]string{"fail-policy", "closed a* open"})
	require.Equal(t, [][2]string{{"maxclients", "10000"}, {"maxmemory-clients", "1073741824"}}, c.matching("max*clients"))
}

// rlproxy.conf names every directive once with its default, and means the same as
// no file at all.
func TestShippedFileShowsEveryDefault(t *testing.T) {
	const path = "../../rlproxy.conf"
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	for _, d := range directives {
		setting := d.preset
		if setting == "" {
			setting = d.hint
		}
		re := regexp.MustCompile(`(?m)^(# )?` + regexp.QuoteMeta(d.name+" "+setting) + `$`)
		require.Len(t, re.FindAll(b, -1), 1, "%s must have a line %q", path, d.name+" "+setting)
	}
	c, err := load([]string{path})
	require.NoError(t, err)
	require.Equal(t, newConfig(), c)
	for _, d := range directives {
		require.Contains(t, usage(), "  "+d.name+" ")
	}
}
