package commands

// Match tells whether s matches a glob pattern as Redis reads one, without regard
// to the case of ASCII letters: * any bytes, ? one byte, [a-z] and [^a-z] one byte
// of a set, a backslash takes the next byte as it is. CONFIG GET and COMMAND LIST
// use it. It takes at most len(pattern) x len(s) steps, whatever the pattern.
func Match(pattern, s string) bool { return match(pattern, s, small) }

// matchCase is Match with regard to case, as Redis matches keys.
func matchCase(pattern string, s []byte) bool {
	return match(pattern, s, func(c byte) byte { return c })
}

// match compares bytes as they are after fold.
func match[S string | []byte](pattern string, s S, fold func(byte) byte) bool {
	p, i := 0, 0
	star, mark := -1, 0 // where to go on when the rest after the last * does not match
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p, i
			p++
			continue
		}
		if n, ok := matchOne(pattern[p:], s[i], fold); ok {
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

// matchOne matches the first element of a pattern with a byte and returns the
// element's length.
func matchOne(pattern string, c byte, fold func(byte) byte) (int, bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '[':
		return matchSet(pattern, c, fold)
	case '\\':
		if len(pattern) > 1 {
			return 2, fold(pattern[1]) == fold(c)
		}
	}
	return 1, fold(pattern[0]) == fold(c)
}

// matchSet matches a set; one that is never closed ends with the pattern.
func matchSet(pattern string, c byte, fold func(byte) byte) (int, bool) {
	c = fold(c)
	i := 1
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	found := false
	for i < len(pattern) && pattern[i] != ']' {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			found = found || fold(pattern[i+1]) == c
			i += 2
		case i+2 < len(pattern) && pattern[i+1] == '-':
			lo, hi := fold(pattern[i]), fold(pattern[i+2])
			found = found || min(lo, hi) <= c && c <= max(lo, hi)
			i += 3
		default:
			found = found || fold(pattern[i]) == c
			i++
		}
	}
	return min(i+1, len(pattern)), found != not
}

func small(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}
