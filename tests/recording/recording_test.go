// Package recording records docs/terminal.svg, the moving picture of the README: what a terminal shows when somebody types
// the commands of a few scenes. make recording writes it; the test types the commands again, and compares the answers.
//
// Reading order: this file (what is typed, and what a terminal answers); picture_test.go (the picture).
package recording

import (
	"flag"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
)

const file = "../../docs/terminal.svg"

var update = flag.Bool("update", false, "write docs/terminal.svg")

func TestMain(m *testing.M) { os.Exit(proxytest.Main(m, "../../cmd/rlproxy")) }

// line is one line of the terminal.
type line struct {
	text  string
	typed bool   // a person types it
	note  string // what the picture says beside it
}

// typed are the lines that a person types, by scene. A scene begins with an empty terminal. A comment has no answer.
var typed = [][]string{
	{
		"# at most 2 logins a minute for user:42",
		"redis-cli -p 6380 RL.SLIDE login:user:42 2 60",
		"redis-cli -p 6380 RL.SLIDE login:user:42 2 60",
		"redis-cli -p 6380 RL.SLIDE login:user:42 2 60",
	},
	{
		"# the same over HTTP, with a limit that has a name: policy api SLIDE 1 60",
		"curl -is http://127.0.0.1:6381/check/api/user:42 | grep -iE '^(http|rate|retry)'",
		"curl -is http://127.0.0.1:6381/check/api/user:42 | grep -iE '^(http|rate|retry)'",
	},
}

// notes explain lines of the first scene, by their numbers.
var notes = map[int]string{
	2: "allowed", 3: "the limit", 4: "how many remain", 5: "ms to wait", 6: "ms until all are back",
	14: "denied", 17: "ms to wait",
}

// record types the lines into a shell. Its rlproxy listens on free ports, which stand for those that are typed.
func record(t *testing.T) (scenes [][]line) {
	t.Helper()
	web := strconv.Itoa(redistest.FreePort(t))
	p := proxytest.Start(t, "--http-port", web, "--http-check", "yes", "--policy", "api", "SLIDE", "1", "60")
	_, port, err := net.SplitHostPort(p.Addr)
	require.NoError(t, err)
	// In a terminal redis-cli numbers and names what it shows, which it does elsewhere only with --no-raw.
	here := strings.NewReplacer("redis-cli", "redis-cli --no-raw", "6380", port, "6381", web)
	for i, lines := range typed {
		var scene []line
		for _, text := range lines {
			scene = append(scene, line{text: text, typed: true})
			out, err := exec.Command("bash", "-c", here.Replace(text)).CombinedOutput() // #nosec G204 -- the lines above
			require.NoError(t, err, "%s", out)
			for answer := range strings.Lines(string(out)) {
				scene = append(scene, line{text: strings.TrimRight(answer, "\r\n")})
			}
		}
		if i == 0 {
			for n, note := range notes {
				require.Less(t, n, len(scene))
				scene[n].note = note
			}
		}
		scenes = append(scenes, scene)
	}
	return scenes
}

// waits matches the times in answers: how long to wait differs from run to run.
var waits = regexp.MustCompile(`\b\d{4,}\b|t=\d+|Retry-After: \d+`)

// The picture shows what rlproxy answers, but for the times until a retry.
func TestTheRecordingIsWhatRlproxyAnswers(t *testing.T) {
	scenes := record(t)
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(picture(scenes)), 0o600))
		return
	}
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Less(t, len(text), 20<<10, "bytes")
	require.Equal(t, waits.ReplaceAllString(picture(scenes), "ms"), waits.ReplaceAllString(string(text), "ms"),
		"write it again with make recording")
}
