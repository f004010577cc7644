package tests

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// typed is a command that a document shows, and the reply that it shows.
type typed struct {
	command string
	reply   []string // lines; none if the document shows no reply
}

// transcripts returns the commands in a document's code blocks, in order: what follows
// "> ", with the reply in the lines below it; and lines that begin with RL., each with a
// comment after two blanks, unless they describe a syntax. A line may have several columns
// of transcripts side by side.
func transcripts(document string) (all []typed) {
	prompt := regexp.MustCompile(`(^|  )> `)
	var open []int    // commands of all, one per column, whose replies follow
	var columns []int // where each column begins
	for line := range strings.Lines(document) {
		text, code := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		starts := prompt.FindAllStringIndex(text, -1)
		switch {
		case !code || text == "":
			open = nil
		case starts != nil:
			open, columns = nil, nil
			for i, start := range starts {
				end := len(text)
				if i+1 < len(starts) {
					end = starts[i+1][0]
				}
				open = append(open, len(all))
				columns = append(columns, start[1]-len("> "))
				all = append(all, typed{command: strings.TrimSpace(text[start[1]:end])})
			}
		case open != nil:
			for i, k := range open {
				end := len(text)
				if i+1 < len(columns) {
					end = min(end, columns[i+1])
				}
				all[k].reply = append(all[k].reply, strings.TrimRight(text[min(columns[i], end):end], " "))
			}
		case strings.HasPrefix(text, "RL.") && !strings.ContainsAny(text, "[|<"):
			command, _, _ := strings.Cut(text, "  ")
			all = append(all, typed{command: command})
		}
	}
	return all
}

// retryAndReset matches the last two lines of a decision, which are times, unless they are 0.
var retryAndReset = regexp.MustCompile(`^( *[45]\) \(integer\)) [1-9]\d*$`)

// timeless returns a reply without what differs between runs: retry_after and reset_after of a
// decision, or of those of several keys, unless they are 0.
func timeless(reply []string) []string {
	shown := slices.Clone(reply)
	if len(shown) == 5 || len(shown) > 5 && strings.HasPrefix(shown[0], "1) 1) ") && len(shown)%5 == 0 {
		for i, line := range shown {
			shown[i] = retryAndReset.ReplaceAllString(line, "$1 a time")
		}
	}
	return shown
}

// tookLong matches the line that redis-cli adds to a reply that took longer than half a second.
var tookLong = regexp.MustCompile(`\n\(\d+\.\d\ds\)$`)

// policyLines matches configuration lines with policies in a document's code blocks.
var policyLines = regexp.MustCompile(`(?m)^    policy.*\n`)

// TestTranscriptsOfDocumentsAreTrue types the commands in the documents into redis-cli, with the
// documents' policies in the configuration. It must print the replies in the documents, apart from
// times, and no error where they show no reply.
func TestTranscriptsOfDocumentsAreTrue(t *testing.T) {
	t.Parallel()
	for path, least := range map[string]int{"../README.md": 4, "../docs/policies.md": 20, "../docs/tokens.md": 14} {
		document, err := os.ReadFile(path)
		require.NoError(t, err)
		all := transcripts(string(document))
		require.GreaterOrEqual(t, len(all), least, path)
		conf := write(t, "policies.conf", strings.Join(policyLines.FindAllString(string(document), -1), ""))
		t.Run(strings.TrimPrefix(path, "../"), func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, p *proxy) {
				for _, line := range all {
					var got []string
					eventually(t, line.command, func() bool {
						cmd := exec.Command("redis-cli", "--no-raw", "-p", port(t, p.addr))
						cmd.Stdin = strings.NewReader(line.command + "\n") // redis-cli splits the words, as for a reader
						out, err := cmd.CombinedOutput()
						require.NoError(t, err, "%s: %s", line.command, out)
						text := tookLong.ReplaceAllString(strings.TrimRight(string(out), "\n"), "")
						got = strings.Split(text, "\n")
						// On a busy machine, the FAIL policy may answer a request with AND: then nothing is charged.
						return !strings.Contains(line.command, " AND ") || !strings.Contains(text, "(integer) -1")
					})
					if line.reply == nil {
						require.NotContains(t, got[0], "(error)", line.command)
						continue
					}
					require.Equal(t, timeless(line.reply), timeless(got), line.command)
				}
			}, "--include", conf)
		})
	}
}
