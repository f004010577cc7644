package commands

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

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

// policyLines matches configuration lines with policies in a document's code blocks.
var policyLines = regexp.MustCompile(`(?m)^    policy.*\n`)

// TestTranscriptsOfDocumentsAreTrue types the commands in the documents, one a second, with the documents' policies in the
// configuration. The replies must be those in the documents, and no error where they show no reply.
func TestTranscriptsOfDocumentsAreTrue(t *testing.T) {
	for path, least := range map[string]int{"../README.md": 1, "../docs/limits.md": 4, "../docs/policies.md": 20, "../docs/tokens.md": 14, "../docs/migrating.md": 3} {
		t.Run(strings.TrimPrefix(path, "../"), func(t *testing.T) {
			document, err := os.ReadFile(path)
			require.NoError(t, err)
			all := transcripts(string(document))
			require.GreaterOrEqual(t, len(all), least)
			s := newShell(t, strings.Join(policyLines.FindAllString(string(document), -1), ""))
			for _, line := range all {
				got := s.typeIn(t, line.command)
				if line.reply == nil {
					require.NotContains(t, got, "(error)", line.command)
				} else {
					require.Equal(t, strings.Join(line.reply, "\n"), got, line.command)
				}
				s.now = s.now.Add(time.Second)
			}
		})
	}
}
