// Package glob matches byte strings against patterns as Redis does, in time linear in the length of the string for any
// one pattern.
//
// In every pattern, * stands for any bytes, including none. A matcher that tries all combinations of the lengths of the
// stars needs exponential time for patterns such as
// *a*a*a*b. This one backtracks only to the last star: if the text between two stars has
// been found, a later occurrence of it cannot help what follows. So each byte of the string is compared with each
// element of the pattern at most once, and nothing is allocated.
package glob

// Match reports whether s matches a pattern: * stands for any bytes, ? for one byte, [a-z]
// and [^a-z] for one byte inside or outside a set, and a backslash makes the next byte
// literal. A set without a closing bracket ends with the pattern.
func Match[S string | []byte](pattern string, s S) bool {
	p, i := 0, 0
	star, mark := -1, 0 // the last star in pattern, and where in s the current attempt after it began
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n := one(pattern[p:], s[i]); n > 0 {
			p += n
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star+1, mark
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

// one matches the first element of a pattern, which is not a star, with one byte. It returns the
// length of the element in the pattern, or 0 if the byte does not match.
func one(pattern string, c byte) int {
	switch {
	case pattern == "":
		return 0
	case pattern[0] == '?':
		return 1
	case pattern[0] == '[':
		in, n := set(pattern, c)
		if !in {
			return 0
		}
		return n
	case pattern[0] == '\\' && len(pattern) > 1 && pattern[1] == c:
		return 2
	case pattern[0] == c && (c != '\\' || len(pattern) == 1):
		return 1
	}
	return 0
}

// set reports whether c is in the set at the start of a pattern, and returns the length of the set in the pattern.
func set(pattern string, c byte) (in bool, n int) {
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	found := false
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			found = found || pattern[i+1] == c
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			found = found || low <= c && c <= high
			i += 3
		default:
			found = found || pattern[i] == c
			i++
		}
	}
	return found != not, min(i+1, len(pattern))
}
