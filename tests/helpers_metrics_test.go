package tests

import (
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// measured is a proxy with metrics.
type measured struct {
	*proxy
	url string // of /metrics
}

// startMeasured starts a proxy with an http-port.
func startMeasured(t *testing.T, args ...string) *measured {
	t.Helper()
	port := strconv.Itoa(redistest.FreePort(t))
	p := startProxy(t, append(args, "--http-port", port)...)
	return &measured{p, "http://127.0.0.1:" + port + "/metrics"}
}

// text returns the metrics as the user gets them; user is "name:password" or "".
func (m *measured) text(t *testing.T, user string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.url, nil)
	require.NoError(t, err)
	if name, password, ok := strings.Cut(user, ":"); ok {
		r.SetBasicAuth(name, password)
	}
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	require.NoError(t, err)
	defer func() { require.NoError(t, answer.Body.Close()) }()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", body)
	return string(body)
}

// series are the values of metrics by name and labels, without the prefix rlproxy_.
type series map[string]float64

// scrape returns the metrics of rlproxy itself.
func (m *measured) scrape(t *testing.T) series {
	t.Helper()
	all := make(series)
	for line := range strings.Lines(m.text(t, "")) {
		name, ours := strings.CutPrefix(line, "rlproxy_")
		if !ours {
			continue
		}
		at := strings.LastIndexByte(name, ' ')
		value, err := strconv.ParseFloat(strings.TrimSpace(name[at:]), 64)
		require.NoError(t, err, line)
		all[name[:at]] = value
	}
	return all
}

// requireSeries checks some of the series.
func requireSeries(t *testing.T, want, got series) {
	t.Helper()
	for name, value := range want {
		found, ok := got[name]
		require.True(t, ok, "there is no %s", name)
		require.Equal(t, value, found, name)
	}
}

// decided returns the series decisions_total of a command that brought its limits, by
// result, without those that are 0.
func (s series) decided(command string) map[string]int { return s.decidedBy("", command) }

// decidedBy returns those of a policy's limits; command is that of the policy's algorithm.
func (s series) decidedBy(policy, command string) map[string]int {
	results := make(map[string]int)
	for name, value := range s {
		if rest, ok := strings.CutPrefix(name, `decisions_total{command="`+command+`",policy="`+policy+`",result="`); ok && value != 0 {
			results[strings.TrimSuffix(rest, `"}`)] = int(value)
		}
	}
	return results
}

var (
	helpLine  = regexp.MustCompile(`(?m)^# HELP (rlproxy_\S+) (.*)$`)
	typeLine  = regexp.MustCompile(`(?m)^# TYPE (rlproxy_\S+) (\S+)$`)
	labelName = regexp.MustCompile(`[{,](\w+)="`)
)

// documented returns the rows of docs/metrics.md for some answers of /metrics.
func documented(texts ...string) string {
	all := strings.Join(texts, "")
	kinds := make(map[string]string)
	for _, m := range typeLine.FindAllStringSubmatch(all, -1) {
		kinds[m[1]] = m[2]
	}
	rows := make(map[string]string)
	for _, m := range helpLine.FindAllStringSubmatch(all, -1) {
		name := m[1]
		one := regexp.MustCompile(`(?m)^` + name + `(_bucket|_sum|_count)?\{.*$`).FindString(all)
		var labels []string
		for _, l := range labelName.FindAllStringSubmatch(one, -1) {
			if l[1] != "le" {
				labels = append(labels, l[1])
			}
		}
		rows[name] = "| `" + name + "` | " + kinds[name] + " | " + strings.Join(labels, ", ") + " | " + m[2] + " |\n"
	}
	table := ""
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		table += rows[name]
	}
	return table
}
