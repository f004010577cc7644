package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

func readPage(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", path))
	require.NoError(t, err)
	return string(text)
}

// The README is read in a few minutes, and leads to every page.
func TestReadmeIsShortAndLeadsEverywhere(t *testing.T) {
	t.Parallel()
	readme := readPage(t, "README.md")
	require.LessOrEqual(t, len(strings.Fields(readme)), 1300, "words")
	pages, err := filepath.Glob("../docs/*.md")
	require.NoError(t, err)
	for _, page := range pages {
		require.Contains(t, readme, "](docs/"+filepath.Base(page), "the README does not lead to this page")
	}
	contents, _, _ := strings.Cut(readme, "\n## ")
	for _, heading := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(readme, -1) {
		require.Contains(t, contents, "- ["+heading[1]+"](#", "the table of contents lacks a section")
	}
}

// speeds matches the rows of README's table of figures, by the name of the limiter.
var speeds = regexp.MustCompile(`(?m)^\| ([^|]+) \| [\d,]+ \| [\d,-]+ \| [\d,]+ \| [\d.]+ \|$`)

// The figures in the README are those of docs/peers.md. make bench-peers writes both.
func TestReadmeHasTheFiguresOfPeers(t *testing.T) {
	t.Parallel()
	readme, peers := readPage(t, "README.md"), readPage(t, "docs/peers.md")
	rows := 0
	want := speeds.ReplaceAllStringFunc(readme, func(row string) string {
		rows++
		name := speeds.FindStringSubmatch(row)[1]
		_, after, found := strings.Cut(peers, "\n| "+name+" | ")
		require.True(t, found, "docs/peers.md has no row %s", name)
		line, _, _ := strings.Cut(after, "\n")
		cells := strings.Split(line, " | ") // decisions/s, -P 16, p50, p99, CPU ...
		return "| " + strings.Join([]string{name, cells[0], cells[1], cells[2], cells[4]}, " | ") + " |"
	})
	require.Equal(t, 5, rows)
	if *update && want != readme {
		require.NoError(t, os.WriteFile("../README.md", []byte(want), 0o600))
		return
	}
	require.Equal(t, want, readme, "go test ./tests -run TestReadmeHasTheFiguresOfPeers -update copies them")
}

// A shell gets from rlproxy what the README says, if rlproxy is started as make run does.
func TestCommandsOfReadmeWork(t *testing.T) {
	t.Parallel()
	web := strconv.Itoa(redistest.FreePort(t))
	_, options, found := strings.Cut(readPage(t, "Makefile"), "@exec bin/rlproxy ")
	require.True(t, found)
	options, _, _ = strings.Cut(options, "\n")
	p := startProxy(t, strings.Fields(strings.NewReplacer("6380", "0", "6381", web).Replace(options))...)
	here := strings.NewReplacer("6380", port(t, p.addr), "6381", web)
	var asked []string
	for _, line := range regexp.MustCompile(`(?m)^    ((redis-cli|curl) .*)$`).FindAllStringSubmatch(readPage(t, "README.md"), -1) {
		out, err := exec.Command("bash", "-c", here.Replace(line[1])).CombinedOutput() // #nosec G204 -- README's own commands
		require.NoError(t, err, "%s\n%s", line[1], out)
		require.NotContains(t, string(out), "ERR", line[1])
		asked = append(asked, line[2])
		if line[2] == "curl" {
			require.Contains(t, string(out), "HTTP/1.1 200 OK\r\n")
			require.Contains(t, string(out), `{"allowed":true,"limit":100,"remaining":99,`)
		}
	}
	require.Equal(t, []string{"redis-cli", "curl"}, asked)
	p.stop(t)
}
