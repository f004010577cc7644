package commands

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/resp"
)

var update = flag.Bool("update", false, "rewrite testdata and docs/commands.md with what the code answers")

// Conversations are what clients send and what they get, for people to read:
//
//	# a comment
//	! password secret      a new handler with this setting, and a new session
//	> PING                 sent; lines without others between them are one pipeline
//	  +PONG                the reply, one line for each line of RESP
//	= 2 requests           the engine was asked, in one call
//	= closed               the session ends
func TestConversations(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			got := converse(t, string(want))
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o600))
				return
			}
			require.Equal(t, string(want), got)
		})
	}
}

// converse returns the text with every reply replaced by what the code answers.
func converse(t *testing.T, text string) string {
	var out bytes.Buffer
	e := newFakeEngine()
	h := New(testConfig(e))
	s := open(h, 1)
	var pipeline []resp.Command
	send := func() {
		if len(pipeline) == 0 {
			return
		}
		e.calls = nil
		answer := ask(h, s, pipeline...)
		pipeline = nil
		for _, n := range e.calls {
			fmt.Fprintf(&out, "= %d requests\n", n)
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(answer, "\r\n"), "\r\n") {
			if answer != "" {
				out.WriteString("  " + visible(line) + "\n")
			}
		}
		if s.Closing() {
			out.WriteString("= closed\n")
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !strings.HasPrefix(line, "> ") {
			send()
		}
		switch {
		case strings.HasPrefix(line, "> "):
			pipeline = append(pipeline, split(t, line[2:]))
		case strings.HasPrefix(line, "! "):
			e = newFakeEngine()
			cfg := testConfig(e)
			word, value, _ := strings.Cut(line[2:], " ")
			switch word {
			case "password":
				cfg.ACL = requiring(value)
			case "passthrough":
				cfg.Passthrough = true
			case "queue":
				n, err := strconv.Atoi(value)
				require.NoError(t, err)
				cfg.MaxQueue = n
			case "new":
			default:
				t.Fatalf("unknown setting %q", line)
			}
			h = New(cfg)
			s = open(h, 1)
		case strings.HasPrefix(line, "  "), strings.HasPrefix(line, "= "):
			continue // written anew
		}
		out.WriteString(line + "\n")
	}
	send()
	return out.String()
}

// visible writes what cannot be read as Go does.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString("\\n\n    ")
		case unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
	}
	return strings.TrimSuffix(b.String(), "\n    ")
}

// split cuts a line into words; a word in double quotes is read as Go's.
func split(t testing.TB, line string) resp.Command {
	var args resp.Command
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		word := line
		if line[0] == '"' {
			q, err := strconv.QuotedPrefix(line)
			require.NoError(t, err, line)
			word, line = q, line[len(q):]
			text, err := strconv.Unquote(word)
			require.NoError(t, err)
			args = append(args, []byte(text))
			continue
		}
		if i := strings.IndexByte(line, ' '); i >= 0 {
			word = line[:i]
		}
		line = line[len(word):]
		args = append(args, []byte(word))
	}
	return args
}
