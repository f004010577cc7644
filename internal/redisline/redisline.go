// Package redisline splits a line into words, as Redis splits inline commands and lines of its configuration.
package redisline

import (
	"strconv"
	"strings"
)

// Split splits a line by Redis's rules: words are separated by white space; "..." may contain white space and \n \r \t
// \b \a \" \\ and \xHH; '...' may contain white space and \'; a quote may open inside a word, as in a"b c", which is
// the word ab c, and a closing quote must end its word. The words are copies. Split returns false if a quote is not
// closed, or is closed in the middle of a word.
func Split(line []byte) (words [][]byte, ok bool) {
	text := make([]byte, 0, len(line)) // backs the words; never longer than the line
	for i := 0; ; {
		for i < len(line) && isSpace(line[i]) {
			i++
		}
		if i == len(line) {
			return words, true
		}
		start := len(text)
		var size int
		if text, size, ok = appendWord(text, line[i:]); !ok {
			return nil, false
		}
		i += size
		words = append(words, text[start:len(text):len(text)])
	}
}

// Count returns the number of words that Split returns, or more if there are quotes.
func Count(line []byte) (n int) {
	space := true
	for _, c := range line {
		if space && !isSpace(c) {
			n++
		}
		space = isSpace(c)
	}
	return n
}

// appendWord appends the word at the start of s to dst. It returns how many bytes of s the word took.
func appendWord(dst, s []byte) ([]byte, int, bool) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case ' ', '\n', '\r', '\t':
			return dst, i, true
		case '"', '\'':
			var size int
			dst, size = appendQuoted(dst, s[i+1:], c)
			i += 1 + size // the closing quote
			if i >= len(s) || i+1 < len(s) && !isSpace(s[i+1]) {
				return dst, 0, false
			}
			return dst, i + 1, true
		default:
			dst = append(dst, c)
		}
	}
	return dst, len(s), true
}

// appendQuoted appends the text of s up to the closing quote and returns the quote's index, or len(s) if there is none.
func appendQuoted(dst, s []byte, quote byte) ([]byte, int) {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == quote {
			return dst, i
		}
		if c == '\\' && i+1 < len(s) {
			if quote == '\'' {
				if s[i+1] == '\'' {
					i++
					c = '\''
				}
			} else if n, err := hexPair(s[i+1:]); err == nil {
				i += 3
				c = byte(n)
			} else {
				i++
				c = unescape(s[i])
			}
		}
		dst = append(dst, c)
	}
	return dst, len(s)
}

// unescape returns the byte that a backslash and c stand for between double quotes.
func unescape(c byte) byte {
	if i := strings.IndexByte("nrtba", c); i >= 0 {
		return "\n\r\t\b\a"[i]
	}
	return c
}

// hexPair parses xHH.
func hexPair(s []byte) (uint64, error) {
	if len(s) < 3 || s[0] != 'x' {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseUint(string(s[1:3]), 16, 8)
}

// isSpace is C's isspace.
func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r'
}
