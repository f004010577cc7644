// Package glob matches byte strings against patterns, in time linear in the length of
// the string for any one pattern.
//
// In every pattern, * stands for any bytes, including none. A matcher that tries all
// combinations of the lengths of the stars needs exponential time for patterns such as
// *a*a*a*b. This one backtracks only to the last star: if the text between two stars has
// been found, a later occurrence of it cannot help what follows. So each byte of the
// string is compared with each element of the pattern at most once, and nothing is
// allocated.
package glob

import "unicode/utf8"

// dialect is the syntax of a pattern.
type dialect uint8

const (
	redis  dialect = iota // the syntax of Match
	folded                // the syntax of MatchFold
	wild                  // the syntax of MatchWild
)

// Match reports whether s matches a pattern by Redis's rules: * stands for any bytes, ?
// for one byte, [a-z] and [^a-z] for one byte inside or outside a set, and a backslash
// makes the next byte literal. A set without a closing bracket ends with the pattern.
func Match[S string | []byte](pattern string, s S) bool { return match(pattern, s, redis) }

// MatchFold is like Match but ignores the case of ASCII letters.
func MatchFold[S string | []byte](pattern string, s S) bool { return match(pattern, s, folded) }

// MatchWild reports whether s matches a pattern in which * stands for any bytes, ? for
// one UTF-8 character, and a backslash makes the next character literal. All others are
// literal, including brackets. A byte that is not part of a UTF-8 character counts as a
// character.
func MatchWild[S string | []byte](pattern string, s S) bool { return match(pattern, s, wild) }

func match[S string | []byte](pattern string, s S, d dialect) bool {
	p, i := 0, 0
	star, mark := -1, 0 // the last star in pattern, and where in s the current attempt after it began
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if np, ni := one(pattern[p:], s[i:], d); ni > 0 {
			p += np
			i += ni
			continue
		}
		if star < 0 {
			return false
		}
		mark += width(s[mark:], d)
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches the first element of a pattern, which is not a star, with the start of s,
// which is not empty. It returns how many bytes of both match; inString is 0 if none do.
func one[S string | []byte](pattern string, s S, d dialect) (inPattern, inString int) {
	if pattern == "" {
		return 0, 0
	}
	n := width(s, d)
	if pattern[0] == '?' {
		return 1, n
	}
	if pattern[0] == '[' && d != wild {
		in, length := set(pattern, s[0], d)
		if !in {
			return 0, 0
		}
		return length, 1
	}
	quote := 0
	if pattern[0] == '\\' && len(pattern) > 1 {
		quote = 1
	}
	literal := pattern[quote:]
	if width(literal, d) != n {
		return 0, 0
	}
	for i := range n {
		if fold(literal[i], d) != fold(s[i], d) {
			return 0, 0
		}
	}
	return quote + n, n
}

// set reports whether c is in the set at the start of a pattern, and returns the length
// of the set in the pattern.
func set(pattern string, c byte, d dialect) (in bool, n int) {
	c = fold(c, d)
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	found := false
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			found = found || fold(pattern[i+1], d) == c
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			found = found || fold(low, d) <= c && c <= fold(high, d)
			i += 3
		default:
			found = found || fold(pattern[i], d) == c
			i++
		}
	}
	return found != not, min(i+1, len(pattern))
}

// width returns the number of bytes of the first character of s, which is not empty.
func width[S string | []byte](s S, d dialect) int {
	if d != wild || s[0] < utf8.RuneSelf {
		return 1
	}
	_, n := utf8.DecodeRuneInString(string(s[:min(len(s), utf8.UTFMax)]))
	return n
}

// fold returns c in lower case if the dialect ignores case.
func fold(c byte, d dialect) byte {
	if d == folded && 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
