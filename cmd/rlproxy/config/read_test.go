package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/word"
	"github.com/rlproxy/rlproxy/engine"
)

func TestBadSettingsAreRefusedWithTheirLineAndWhatIsAllowed(t *testing.T) {
	for line, want := range map[string]string{
		"prot 1":                       `unknown directive "prot"; rlproxy --help lists the directives`,
		"port 65536":                   `port must be an integer from 0 to 65535; it was "65536"`,
		"port":                         `port must be an integer from 0 to 65535; nothing was given`,
		"port 1 2":                     `port must be an integer from 0 to 65535; it was "1 2"`,
		"policy api":                   `policy: syntax error: a policy has an algorithm, a limit and a window`,
		"policy api SLIDE 5 x":         `policy: invalid window: use seconds or an integer with ms, s, m, h or d, from 1ms to 366d; it was 'x'`,
		"policy-override api x 5 1":    `policy-override: no such policy 'api' in the preceding lines`,
		"port 6380 # mine":             `port must be an integer from 0 to 65535; it was "6380 # mine"`,
		"bind":                         `bind must be one or more IP addresses, `,
		"bind example.com":             `bind must be one or more IP addresses, `,
		"bind 127.0.0.1 -127.0.0.1":    `each once, with a leading - if it is optional, or "" for none; it was "127.0.0.1 -127.0.0.1"`,
		"bind * 0.0.0.0":               `each once, `,
		"bind ::1 0:0:0:0:0:0:0:1":     `each once, `,
		"unixsocketperm 800":           `unixsocketperm must be an octal file mode from 0 to 777; it was "800"`,
		"protected-mode on":            `protected-mode must be yes or no; it was "on"`,
		"requirepass a b":              `requirepass must be one word`,
		"maxclients 0":                 `maxclients must be an integer from 1 to 1000000; it was "0"`,
		"timeout -1":                   `timeout must be seconds, an integer from 0 to 2147483647; it was "-1"`,
		"tcp-keepalive 32768":          `tcp-keepalive must be seconds, an integer from 0 to 32767; it was "32768"`, // which Linux would refuse
		"backend-timeout 0":            `backend-timeout must be milliseconds, an integer from 1 to 60000; it was "0"`,
		"maxmemory 1tb":                `maxmemory must be a size in bytes such as 100mb or 1gb, at least 1048576; it was "1tb"`,
		"maxmemory 9007199254740992kb": `maxmemory must be a size`,
		"maxmemory 1":                  `at least 1048576`,
		"loglevel info":                `loglevel must be debug, verbose, notice or warning; it was "info"`,
		"fail-policy maybe":            `fail-policy must be closed, open, local or error, `,
		"fail-policy a b open":         `fail-policy must be closed, open, local or error, `,
		"client-output-buffer-limit pubsub 1gb 0 0":    `client-output-buffer-limit must be normal <size> 0 0, `,
		"client-output-buffer-limit normal 2mb 1mb 60": `there is no soft limit; it was "normal 2mb 1mb 60"`,
		"backend http://u:secret@h:1":                  `backend must be a URL such as redis://127.0.0.1:6379`,
		`port "6380`:                                   `test.conf:1: unbalanced quotes`,
		"port " + strings.Repeat("9", 200):             `it was "` + strings.Repeat("9", 128) + `"`,
		"port 6380\a":                                  `it was "6380\a"`,
		"include":                                      `include must be one file; nothing was given`,
		"include a b":                                  `include must be one file; it was "a b"`,
		"include missing.conf":                         `test.conf:1: can't read the configuration: open missing.conf: no such file`,
	} {
		_, err := read(line)
		require.ErrorContains(t, err, "test.conf:1: ", line)
		require.ErrorContains(t, err, want, line)
		require.NotContains(t, err.Error(), "secret", line)
	}
}

func TestCommandLineHasTheLastWord(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.conf")
	more := filepath.Join(filepath.Dir(file), "more.conf")
	require.NoError(t, os.WriteFile(file, []byte("port 1\nbackend redis://a\ntimeout 7\ninclude more.conf\nfail-policy x open\n"), 0o600))
	require.NoError(t, os.WriteFile(more, []byte("\nport 2\nbackend redis://b\nfail-policy error\n"), 0o600))

	c, err := Load([]string{file}, nil, memory)
	require.NoError(t, err)
	require.Equal(t, 2, c.Port)
	require.Equal(t, []string{"redis://a", "redis://b"}, c.Backends)

	c, err = Load([]string{file, "--port", "3", "--backend", "redis://c", "--backend", "redis://d", "--fail-policy", "y", "local"}, nil, memory)
	require.NoError(t, err)
	require.Equal(t, 3, c.Port)
	require.Equal(t, 7*time.Second, c.Timeout)
	require.Equal(t, []string{"redis://c", "redis://d"}, c.Backends)
	require.Equal(t, engine.FailClosed, c.FailPolicy)
	require.Equal(t, []engine.FailRule{{Glob: "y", Fail: engine.FailLocal}}, c.FailRules)

	_, err = Load([]string{"--port", "x"}, nil, memory)
	require.EqualError(t, err, `command line: port must be an integer from 0 to 65535; it was "x"`)
	_, err = Load([]string{file, "--port", "1", "-x"}, nil, memory)
	require.EqualError(t, err, `command line: port must be an integer from 0 to 65535; it was "1 -x"`)
	_, err = Load([]string{"-x"}, nil, memory)
	require.EqualError(t, err, `command line: "-x" is not a directive: directives begin with --`)

	c, err = Load([]string{file, more, "--timeout", "8"}, nil, memory)
	require.NoError(t, err, "several files")
	require.Equal(t, []string{"redis://a", "redis://b", "redis://b"}, c.Backends)
	_, err = Load([]string{file, "6380"}, nil, memory)
	require.EqualError(t, err, "can't read the configuration: open 6380: no such file or directory")

	require.NoError(t, os.WriteFile(more, []byte("policy a SLIDE 1 1\npolicy b SLIDE 1 1\npolicy-override a x 2 1\npolicy-override b x 2 1\n"), 0o600))
	c, err = Load([]string{more, "--policy-override", "a", "y", "BLOCKED", "--policy-override", "b", "z", "BLOCKED"}, nil, memory)
	require.NoError(t, err)
	require.Equal(t, "policy a SLIDE 1 1s\npolicy-override a y BLOCKED\npolicy b SLIDE 1 1s\npolicy-override b z BLOCKED\n", c.Policies.Set().Text())
	c, err = Load([]string{more, "--policy", "c", "FIXED", "5", "60", "--policy-override", "c", "y", "7", "60"}, nil, memory)
	require.NoError(t, err)
	require.Equal(t, "policy c FIXED 5 1m\npolicy-override c y 7 1m\n", c.Policies.Set().Text())
	_, err = Load([]string{more, "--policy-override", "c", "y", "7", "60"}, nil, memory)
	require.EqualError(t, err, "command line: policy-override: no such policy 'c' in the preceding lines")

	require.NoError(t, os.WriteFile(more, []byte("include more.conf\n"), 0o600))
	_, err = Load([]string{file}, nil, memory)
	require.ErrorContains(t, err, "include must not go deeper than 16 files")
}

// A shell may give a configuration as a pipe. When a reload reads it again, it is empty, and is not taken for a
// configuration without directives.
func TestPipeIsReadOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = r.Close() }()
	_, err = w.WriteString("port 7000\n")
	require.NoError(t, errors.Join(err, w.Close()))
	path := fmt.Sprint("/dev/fd/", r.Fd())
	c, err := Load([]string{path}, nil, 1<<30)
	require.NoError(t, err)
	require.Equal(t, 7000, c.Port)
	_, err = Load([]string{path}, nil, 1<<30)
	require.EqualError(t, err, "can't read the configuration: "+path+" is an empty pipe; a pipe can be read only once")
}

// FuzzConfig reads arbitrary bytes as a file. The result is a configuration that can
// be written and read back unchanged, or an error that names the line.
func FuzzConfig(f *testing.F) {
	shipped, err := os.ReadFile("../../../rlproxy.conf")
	require.NoError(f, err)
	f.Add(string(shipped))
	for _, s := range []string{
		"port 1\nbind * -::1\n", "requirepass \"\\x00\"\n", "client-output-buffer-limit normal 1gb 0 0",
		"backend redis://h\nbackend rediss://u:p@h:1/2", "fail-policy \"a b\" open\nfail-policy local", "maxmemory 9223372036854775807",
		"unixsocketperm 777\nloglevel debug\r\ntimeout 1", "include a", "'", "port 1\x002",
		"policy b COUNTER 5 60 BUCKETS 6\npolicy a SLIDE 5 60 SHADOW\npolicy-override b \"z \" blocked\npolicy-override b a* 7 60 5 1d", "policy a SLIDE 5",
		"user a on (~b +get) ( +@read\nuser c \"(~d e)\"",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, content string) {
		if regexp.MustCompile(`(?i)include`).MatchString(content) {
			return // it would read this machine's files
		}
		c, err := read(content)
		if err != nil {
			require.Regexp(t, `^test\.conf:[0-9]+: `, err.Error())
			return
		}
		var b strings.Builder
		for i := range directives {
			d := &directives[i]
			if d.value == nil {
				continue
			}
			for _, words := range d.value(c).words() {
				b.WriteString(d.Name)
				for _, w := range words {
					b.WriteString(" " + word.InLine(w))
				}
				b.WriteString("\n")
			}
		}
		again, err := read(b.String())
		require.NoError(t, err, b.String())
		require.Equal(t, c, again)
	})
}
