package word

import (
	"errors"
	"strings"

	"github.com/rlproxy/rlproxy/internal/redisline"
)

// ErrQuotes is the error about a quote that is not closed, or whose closing quote does not end the word.
var ErrQuotes = errors.New("unbalanced quotes")

// SplitLine splits a line of a configuration into words, see redisline.Split.
func SplitLine(line string) ([]string, error) {
	split, ok := redisline.Split([]byte(line))
	if !ok {
		return nil, ErrQuotes
	}
	var words []string
	for _, w := range split {
		words = append(words, string(w))
	}
	return words, nil
}

// Blanks are the bytes that do not count at the beginning and the end of a line.
const Blanks = " \t\r\n\v\f\x00"

// InLine returns a word as it is written in a line: quoted, if SplitLine would not return it unchanged otherwise.
func InLine(word string) string {
	if word != "" && !strings.ContainsAny(word, Blanks+`"'\#`) {
		return word
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(word); i++ {
		switch c := word[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ':
			b.WriteString(`\x`)
			b.WriteByte("0123456789abcdef"[c>>4])
			b.WriteByte("0123456789abcdef"[c&15])
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
