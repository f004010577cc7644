package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironmentStandsBetweenFilesAndCommandLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.conf")
	require.NoError(t, os.WriteFile(file, []byte("port 1\nhttp-port 2\nbackend redis://a\ntimeout 7\n"), 0o600))
	environ := []string{
		"RLPROXY_POLICY_OVERRIDE=b y 7 60", "RLPROXY_POLICY=a SLIDE 5 60\nb FIXED 5 60\n", "RLPROXY_PORT=3", "RLPROXY_HTTP_PORT=4",
		"RLPROXY_BACKEND=redis://b\nredis://c", "RLPROXY_REQUIREPASS='a b'", "HOME=/root", "RLPROXY=127.0.0.1:6380",
	}
	c, err := Load([]string{file, "--http-port", "5"}, environ, memory)
	require.NoError(t, err)
	require.Equal(t, 3, c.Port, "the environment overrides the file")
	require.Equal(t, 5, c.HTTPPort, "the command line overrides the environment")
	require.EqualValues(t, 7e9, c.Timeout)
	require.Equal(t, "a b", c.RequirePass)
	require.Equal(t, []string{"redis://b", "redis://c"}, c.Backends, "lines of the environment replace those of the file")
	require.Len(t, c.Policies.Set().All(), 2)

	c, err = Load([]string{file, "--backend", "redis://d"}, environ, memory)
	require.NoError(t, err)
	require.Equal(t, []string{"redis://d"}, c.Backends, "lines of the command line replace both")
}

func TestBadVariablesAreRefusedByName(t *testing.T) {
	for variable, want := range map[string]string{
		"RLPROXY_PROT=1":              `environment: RLPROXY_PROT: unknown directive "prot"; rlproxy --help lists the directives`,
		"RLPROXY_PORT=many":           `environment: RLPROXY_PORT: port must be an integer from 0 to 65535; it was "many"`,
		"RLPROXY_PORT=":               `environment: RLPROXY_PORT: port must be an integer from 0 to 65535; nothing was given`,
		"RLPROXY_PORT=1\n2 x":         `environment: RLPROXY_PORT: port must be an integer from 0 to 65535; it was "2 x"`,
		"RLPROXY_REQUIREPASS=hush no": `environment: RLPROXY_REQUIREPASS: requirepass must be one word`,
		"RLPROXY_LOGFILE='a":          `environment: RLPROXY_LOGFILE: unbalanced quotes`,
		"RLPROXY_SERVICE=x":           `environment: RLPROXY_SERVICE: unknown directive "service"`,
		"RLPROXY_PORT_80=x":           `environment: RLPROXY_PORT_80: unknown directive "port-80"`,
	} {
		_, err := Load(nil, []string{variable}, memory)
		require.ErrorContains(t, err, want, variable)
		require.NotContains(t, err.Error(), "hush")
	}
}

// Services that are called rlproxy, or begin with rlproxy-, have variables that begin like those of directives.
func TestVariablesOfKubernetesAreIgnored(t *testing.T) {
	var environ []string
	for _, service := range []string{"RLPROXY", "RLPROXY_HTTP", "RLPROXY_TLS"} {
		environ = append(environ, service+"_SERVICE_HOST=10.0.0.1", service+"_SERVICE_PORT=6380", service+"_SERVICE_PORT_REDIS=6380",
			service+"_PORT=tcp://10.0.0.1:6380", service+"_PORT_6380_TCP=tcp://10.0.0.1:6380", service+"_PORT_6380_TCP_PROTO=tcp",
			service+"_PORT_6380_TCP_PORT=6380", service+"_PORT_6380_TCP_ADDR=10.0.0.1", service+"_PORT_53_UDP_ADDR=10.0.0.1")
	}
	c, err := Load(nil, environ, memory)
	require.NoError(t, err)
	require.Empty(t, newConfig(memory).Changed(c, false))
	for i := range directives {
		name := prefix + strings.ReplaceAll(strings.ToUpper(directives[i].Name), "-", "_")
		require.False(t, serviceName.MatchString(name), "%s could not be set", name)
	}
}
