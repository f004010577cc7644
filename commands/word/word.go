// Package word parses single words of a command as Redis does, quotes them in errors, and
// splits lines of a configuration into words. Only Literal, List and the functions of line.go allocate.
package word

import (
	"bytes"
	"math"
	"strings"
)

// Is reports whether b is the word upper, in any case. upper consists of the letters A to Z and digits.
func Is(b []byte, upper string) bool {
	if len(b) != len(upper) {
		return false
	}
	for i := range b {
		if b[i]&^0x20 != upper[i] && b[i] != upper[i] { // a digit has the bit of lower case
			return false
		}
	}
	return true
}

// IsInteger reports whether b is an integer of any size in Redis's form: no plus sign, no
// leading zero, no space, no -0.
func IsInteger(b []byte) bool {
	digits := b
	if len(b) > 0 && b[0] == '-' {
		digits = b[1:]
	}
	if len(digits) == 0 || digits[0] == '0' && len(b) > 1 {
		return false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}

// Integer parses b as an int64 in Redis's form.
func Integer(b []byte) (int64, bool) {
	if !IsInteger(b) {
		return 0, false
	}
	negative := b[0] == '-'
	digits := b
	if negative {
		digits = b[1:]
	}
	return Decimal(digits, negative)
}

// Decimal returns the number with the given digits and sign, and false if it overflows. It
// computes with negative numbers, because their range is larger by one.
func Decimal(digits []byte, negative bool) (int64, bool) {
	var n int64
	for _, c := range digits {
		d := int64(c - '0')
		if n < (math.MinInt64+d)/10 {
			return 0, false
		}
		n = n*10 - d
	}
	if negative {
		return n, true
	}
	return -n, n != math.MinInt64
}

// Lower appends b in lower case to dst. It returns false if dst has no capacity for it.
func Lower(dst, b []byte) ([]byte, bool) {
	if len(b) > cap(dst)-len(dst) {
		return nil, false
	}
	for _, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst, true
}

// List joins words as in a sentence: "a, b or c". There must be at least one.
func List(words []string) string {
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Printable reports whether a word may appear in a line of CLIENT LIST.
func Printable[S string | []byte](s S) bool {
	for i := range len(s) {
		if s[i] < '!' || s[i] > '~' {
			return false
		}
	}
	return true
}

// Quoted is the most bytes of a client's words that an error repeats, as in Redis.
const Quoted = 128

// Quote returns the beginning of a word that an error repeats.
func Quote(b []byte) []byte { return Cut(b, Quoted) }

// Cut cuts b at its first NUL, as Redis does by formatting arguments as C strings, and at n bytes.
func Cut(b []byte, n int) []byte {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return b[:min(len(b), n)]
}
