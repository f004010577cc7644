package word

import (
	"errors"
	"strings"
)

// ErrQuotes is the error about a quote that is not closed, or whose closing quote
// does not end the word.
var ErrQuotes = errors.New("unbalanced quotes")

// SplitLine splits a line of a configuration into words, as Redis does. They are separated by
// blanks. A word in double quotes may contain blanks and the escapes \n \r \t \b \a
// \" \\ and \xHH; a word in single quotes may contain blanks and \'. A closing quote
// must end its word.
func SplitLine(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeft(line, Blanks)
		if line == "" {
			return words, nil
		}
		word, rest, err := cutWord(line)
		if err != nil {
			return nil, err
		}
		words, line = append(words, word), rest
	}
}

// Blanks are the bytes that separate words.
const Blanks = " \t\r\n\v\f\x00"

// cutWord splits line after its first word, which begins at line[0]. As in Redis, a
// quote may open inside a word: a"b c" is the word ab c.
func cutWord(line string) (word, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == '"' || c == '\'':
			n, err := quoted(&b, line[i:])
			if err != nil {
				return "", "", err
			}
			return b.String(), line[i+n:], nil
		case strings.IndexByte(Blanks, c) >= 0:
			return b.String(), line[i:], nil
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", nil
}

// quoted appends the text between the quote at s[0] and its closing quote. It
// returns how many bytes of s it consumed.
func quoted(b *strings.Builder, s string) (int, error) {
	quote := s[0]
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			if i+1 < len(s) && strings.IndexByte(Blanks, s[i+1]) < 0 {
				return 0, ErrQuotes
			}
			return i + 1, nil
		case c == '\\' && quote == '"' && i+1 < len(s):
			i += escape(b, s[i+1:])
		case c == '\\' && i+1 < len(s) && s[i+1] == '\'':
			b.WriteByte('\'')
			i++
		default:
			b.WriteByte(c)
		}
	}
	return 0, ErrQuotes
}

// escape appends the byte that an escape stands for. s begins after the backslash;
// escape returns how many bytes of s it consumed.
func escape(b *strings.Builder, s string) int {
	if s[0] == 'x' && len(s) >= 3 {
		high, low := hexDigit(s[1]), hexDigit(s[2])
		if high >= 0 && low >= 0 {
			b.WriteByte(byte(high<<4 | low))
			return 3
		}
	}
	c := s[0]
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		c = "\n\r\t\b\a"[i]
	}
	b.WriteByte(c)
	return 1
}

// hexDigit returns the value of a hexadecimal digit, or -1 for any other byte.
func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// InLine returns a word as it is written in a line: quoted, if SplitLine would not return it
// unchanged otherwise.
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
