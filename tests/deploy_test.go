package tests

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// TestImageTakesDirectivesAndFiles runs the image's command line with different arguments after
// the image's name.
func TestImageTakesDirectivesAndFiles(t *testing.T) {
	t.Parallel()
	i := newImage(t)
	i.write(t, "/my.conf", "requirepass hush\nport 0\n", 0o644)
	for _, args := range [][]string{{"--requirepass", "hush", "--port", "0"}, {"/my.conf"}, {"/my.conf", "--maxclients", "100"}} {
		p := i.start(t, i.command(args...)...)
		require.Regexp(t, `msg=listening address=0\.0\.0\.0:`, p.Output.String(), "clients connect from outside of the container")
		c := dial(t, p.addr)
		require.Equal(t, status("OK"), c.do(t, "AUTH", "hush"))
		require.EqualValues(t, 4, c.decide(t, "RL.SLIDE k 5 60").remaining)
		p.stop(t)
	}
	for args, want := range map[string]string{
		"/none.conf": "rlproxy: can't read the configuration: open /none.conf: no such file or directory\n",
		"6380":       "rlproxy: can't read the configuration: open 6380: no such file or directory\n",
		"--version":  "rlproxy ",
	} {
		p := i.spawn(t, i.command(args)...)
		if args == "--version" {
			require.Zero(t, p.Exit(t), p.Output)
		} else {
			require.Equal(t, 1, p.Exit(t))
		}
		require.Contains(t, p.Output.String(), want)
	}
}

// TestImageIsHealthyWhileRlproxyAnswers runs the image's HEALTHCHECK beside rlproxy, both with the container's environment,
// which has variables of a Service of Kubernetes, too.
func TestImageIsHealthyWhileRlproxyAnswers(t *testing.T) {
	t.Parallel()
	i := newImage(t)
	at := strconv.Itoa(redistest.FreePort(t))
	i.env = []string{
		"RLPROXY_TLS_PORT=0", "RLPROXY_BIND=127.0.0.1", "RLPROXY_REQUIREPASS=hush", "RLPROXY_POLICY=api SLIDE 5 60\nweb FIXED 7 60",
		"RLPROXY_SERVICE_HOST=10.0.0.1", "RLPROXY_SERVICE_PORT=6380", "RLPROXY_SERVICE_PORT_REDIS=6380", "RLPROXY_PORT=tcp://10.0.0.1:6380",
		"RLPROXY_PORT_6380_TCP=tcp://10.0.0.1:6380", "RLPROXY_PORT_6380_TCP_ADDR=10.0.0.1", "RLPROXY_HTTP_PORT=tcp://10.0.0.2:6381",
	}
	i.write(t, "/etc/rlproxy/rlproxy.conf", "port "+at+"\n", 0o644)
	require.Equal(t, 1, i.spawn(t, i.healthcheck...).Exit(t), "nothing runs yet")
	p := i.start(t, i.command()...)
	require.Equal(t, "127.0.0.1:"+at, p.addr)
	eventually(t, "the container's health", func() bool { return i.spawn(t, i.healthcheck...).Exit(t) == 0 || !p.Running() })
	c := dial(t, p.addr)
	require.Equal(t, status("OK"), c.do(t, "AUTH", "hush"))
	require.EqualValues(t, 6, c.decide(t, "RL.CHECK web k").remaining)
	p.stop(t)
	require.Equal(t, 1, i.spawn(t, i.healthcheck...).Exit(t), "it has ended")
}

// The image is built from what git knows, with .git, which tells the version, and without what git ignores.
func TestImageIsBuiltFromWhatGitKnows(t *testing.T) {
	t.Parallel()
	var want []string
	for line := range strings.Lines(readPage(t, ".gitignore")) {
		pattern := strings.TrimSuffix(strings.TrimSpace(line), "/")
		if rooted, ok := strings.CutPrefix(pattern, "/"); ok {
			want = append(want, rooted)
		} else {
			want = append(want, "**/"+pattern)
		}
	}
	_, got, _ := strings.Cut(strings.TrimSpace(readPage(t, ".dockerignore")), "\n") // without the comment
	require.Equal(t, want, strings.Split(got, "\n"))
}

// unit reads a unit of systemd: the values of each setting, in order.
func unit(t *testing.T, path string) map[string][]string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	settings := make(map[string][]string)
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			settings[name] = append(settings[name], value)
		}
	}
	return settings
}

// TestUnitRunsWithAPrivateConfiguration runs the commands of the systemd unit as its user,
// with only the folders that it may write to, and a configuration that others cannot read.
func TestUnitRunsWithAPrivateConfiguration(t *testing.T) {
	t.Parallel()
	u := unit(t, "../deploy/rlproxy.service")
	for name, want := range map[string]string{
		"User": "rlproxy", "Group": "rlproxy", "StartLimitIntervalSec": "300", "StartLimitBurst": "60", "RestartSec": "2", "Restart": "always", "ProtectSystem": "strict",
		"RuntimeDirectory": "rlproxy", "LogsDirectory": "rlproxy", "StateDirectory": "rlproxy", "ConfigurationDirectory": "rlproxy",
	} {
		require.Equal(t, []string{want}, u[name], name)
	}
	require.NotContains(t, u, "DynamicUser")
	files, err := strconv.Atoi(u["LimitNOFILE"][0])
	require.NoError(t, err)
	require.GreaterOrEqual(t, files, 10_000+64, "maxclients and what the process needs itself")

	const uid = 61_000 // a user that has no name on this machine
	s := newSandbox(t, uid, uid, "/run/rlproxy", "/var/log/rlproxy", "/var/lib/rlproxy")
	require.Equal(t, []string{u["ExecStart"][0] + " --check"}, u["ExecStartPre"])
	command := strings.Fields(u["ExecStart"][0])
	s.install(t, command[0])
	conf := "bind 127.0.0.1\nport " + strconv.Itoa(redistest.FreePort(t)) + "\nrequirepass hush\n" +
		"unixsocket /run/rlproxy/rlproxy.sock\nlogfile /var/log/rlproxy/rlproxy.log\n" +
		"policy-file /var/lib/rlproxy/policies\n"
	s.write(t, command[1], conf, 0o640)
	p := s.spawn(t, command...)
	log := filepath.Join(s.root, "/var/log/rlproxy/rlproxy.log")
	logged := func(what string) func() bool {
		return func() bool {
			b, err := os.ReadFile(log)
			return err == nil && strings.Contains(string(b), what) || !p.Running()
		}
	}
	eventually(t, "the socket", logged("address=/run/rlproxy/rlproxy.sock"))
	require.True(t, p.Running(), p.Output)
	addr := "127.0.0.1:" + regexp.MustCompile(`port (\d+)`).FindStringSubmatch(conf)[1]
	admin := dial(t, addr)
	require.Equal(t, status("OK"), admin.do(t, "AUTH", "hush"))
	admin.do(t, "RL.POLICY", "SET", "api", "SLIDE", "5", "60")
	require.FileExists(t, filepath.Join(s.root, "/var/lib/rlproxy/policies"))

	// systemctl reload runs the check first, then sends SIGHUP.
	require.Len(t, u["ExecReload"], 2)
	require.Equal(t, "/bin/kill -HUP $MAINPID", u["ExecReload"][1])
	s.write(t, command[1], conf+"prot 1\n", 0o640)
	check := s.spawn(t, strings.Fields(u["ExecReload"][0])...)
	require.Equal(t, 1, check.Exit(t))
	require.Contains(t, check.Output.String(), `unknown directive "prot"`)
	s.write(t, command[1], strings.Replace(conf, "hush", "new", 1), 0o640)
	check = s.spawn(t, strings.Fields(u["ExecReload"][0])...)
	require.Zero(t, check.Exit(t), check.Output)
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "the reload", logged(reloaded))
	require.Equal(t, status("OK"), dial(t, addr).do(t, "AUTH", "new"))
	p.Stop(t)
	require.NoFileExists(t, filepath.Join(s.root, "/run/rlproxy/rlproxy.sock"))
}

// TestUnitIsAcceptedBySystemd runs systemd-analyze, where it is installed.
func TestUnitIsAcceptedBySystemd(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Log("systemd-analyze is missing: only TestUnitRunsWithAPrivateConfiguration has checked the unit")
		return
	}
	b, err := os.ReadFile("../deploy/rlproxy.service")
	require.NoError(t, err)
	text := strings.ReplaceAll(string(b), "/usr/local/bin/rlproxy", staticBinary(t))
	out, _ := exec.Command("systemd-analyze", "verify", "--man=no", write(t, "rlproxy.service", text)).CombinedOutput() // #nosec G204 -- the test's own file
	for line := range strings.Lines(string(out)) {
		require.NotContains(t, line, "rlproxy.service", "systemd has something to say about the unit")
	}
}

// TestComposeFileRunsAsWritten starts the nodes of the compose file with their command
// lines, and in front of them rlproxy in the image with its own.
func TestComposeFileRunsAsWritten(t *testing.T) {
	t.Parallel()
	type service struct {
		Image   string
		Build   struct{ Context, Dockerfile string }
		Command []string
		Volumes []string
		Depends []string `yaml:"depends_on"`
		Memory  string   `yaml:"mem_limit"`
	}
	files := readYAML[struct{ Services map[string]service }](t, "../deploy/compose.yaml")
	require.Len(t, files, 1)
	services := files[0].Services
	rlproxy := services["rlproxy"]
	require.FileExists(t, filepath.Join("../deploy", rlproxy.Build.Context, rlproxy.Build.Dockerfile))
	require.NotEmpty(t, rlproxy.Memory)
	require.Len(t, rlproxy.Depends, 3)
	args := slices.Clone(rlproxy.Command)
	for _, name := range rlproxy.Depends {
		node := services[name]
		require.True(t, strings.HasPrefix(node.Image, "redis:"), node.Image)
		// The path of the configuration in the container is a file of this repository.
		source, target, ok := strings.Cut(strings.TrimSuffix(node.Volumes[0], ":ro"), ":")
		require.True(t, ok)
		require.Equal(t, []string{"redis-server", target}, node.Command[:2])
		b, err := os.ReadFile(filepath.Join("../deploy", source))
		require.NoError(t, err)
		conf := write(t, "redis.conf", strings.Replace(string(b), "\nport 6379\n", "\n", 1))
		n := redistest.Start(t, append([]string{"--include", conf}, node.Command[2:]...)...)
		at := slices.Index(args, "redis://"+name+":6379")
		require.Positive(t, at, "rlproxy does not use %s", name)
		args[at] = n.URL()
	}
	web := slices.Index(args, "--http-port")
	require.Positive(t, web)
	prometheus, err := os.ReadFile("../deploy/prometheus.yml")
	require.NoError(t, err)
	require.Contains(t, string(prometheus), `targets: ["rlproxy:`+args[web+1]+`"]`)
	args[web+1] = strconv.Itoa(redistest.FreePort(t))
	i := newImage(t)
	p := i.start(t, i.command(append(args, "--port", "0", "--backend-timeout", "10000")...)...)
	require.EqualValues(t, 4, dial(t, p.addr).decide(t, "RL.SLIDE k 5 60").remaining)
	require.Contains(t, p.Output.String(), "no password is set and protected-mode is off")
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+args[web+1]+"/metrics", nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	p.stop(t)
	for name, s := range services {
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			require.FileExists(t, filepath.Join("../deploy", source), "of %s", name)
		}
	}
}

// TestDashboardAndAlertsUseMetricsThatExist compares the expressions of both with the table in
// docs/metrics.md, and the alerts with the table in docs/operations.md.
func TestDashboardAndAlertsUseMetricsThatExist(t *testing.T) {
	t.Parallel()
	read := func(path string) string {
		b, err := os.ReadFile(filepath.Join("..", path))
		require.NoError(t, err)
		return string(b)
	}
	exists := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(rlproxy_\\w+)` \\| (\\w+) ").FindAllStringSubmatch(read("docs/metrics.md"), -1) {
		exists[m[1]] = true
		if m[2] == "histogram" {
			exists[m[1]+"_bucket"], exists[m[1]+"_sum"], exists[m[1]+"_count"] = true, true, true
		}
	}
	require.Greater(t, len(exists), 50)
	dashboard, alerts := read("deploy/grafana.json"), read("deploy/alerts.yaml")
	require.True(t, json.Valid([]byte(dashboard)))
	for _, name := range regexp.MustCompile(`\brlproxy_\w*`).FindAllString(dashboard+alerts, -1) {
		if name != "rlproxy_" { // the beginning of a regular expression
			require.True(t, exists[name], "there is no metric %s", name)
		}
	}
	// The runbook of each alert is a section of operations.md, which says whom it wakes.
	const site = "https://github.com/rlproxy/rlproxy/blob/main/"
	sections := make(map[string]string)
	for _, section := range strings.Split(read("docs/operations.md"), "\n### ") {
		heading, text, _ := strings.Cut(section, "\n")
		sections[site+"docs/operations.md#"+strings.ToLower(heading)] = text
	}
	rules := 0
	for _, alert := range strings.Split(alerts, "- alert: ")[1:] {
		name, rule, _ := strings.Cut(alert, "\n")
		require.Contains(t, read("deploy/alerts_test.yaml"), name)
		url := regexp.MustCompile(`runbook_url: (\S+)\n`).FindStringSubmatch(rule)
		require.NotNil(t, url, name)
		require.Equal(t, site+"docs/operations.md#"+strings.ToLower(name), url[1])
		severity := regexp.MustCompile(`severity: (page|ticket)\}`).FindStringSubmatch(rule)
		require.NotNil(t, severity, name)
		require.Regexp(t, `^\nA `+severity[1]+`[.,]`, sections[url[1]], name)
		rules++
	}
	require.Greater(t, rules, 20)
}
