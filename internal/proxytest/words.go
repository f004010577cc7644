package proxytest

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Words splits a line into words. Words may be quoted as in Go.
func Words(t testing.TB, line string) [][]byte {
	var args [][]byte
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
