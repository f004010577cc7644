package glob

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestMatchFollowsRedisSyntax(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "", true}, {"*", "abc", true}, {"a", "A", false}, {"a", "", false},
		{"a*c", "abbc", true}, {"a*c", "abb", false}, {"a?c", "abc", true}, {"a?c", "ac", false},
		{"*a*b", "xaxaxb", true}, {"*ab", "aab", true}, {"**", "x", true}, {"a*", "b", false},
		{"[a-c]x", "bx", true}, {"[a-c]x", "Bx", false}, {"[c-a]x", "bx", true}, {"[^a-c]x", "bx", false}, {"[^a-c]x", "dx", true},
		{"[abc", "c", true}, {"[", "", false}, {"[]", "a", false}, {"[^]", "a", true}, {"[a\\]]", "]", true},
		{"\\*", "*", true}, {"\\*", "a", false}, {"a\\", "a\\", true}, {"[\\", "\\", true},
		{"?", "é", false}, {"??", "é", true}, {"?", "\xff", true},
	} {
		require.Equal(t, c.want, Match(c.pattern, c.text), "%q %q", c.pattern, c.text)
		require.Equal(t, c.want, Match(c.pattern, []byte(c.text)), "%q %q", c.pattern, c.text)
	}
}

// A matcher that backtracks to every star would need longer than the test allows.
func TestManyStarsAreFast(t *testing.T) {
	start := time.Now()
	for _, n := range []int{200, 10_000} {
		text := strings.Repeat("a", n)
		for _, pattern := range []string{"*a*a*a*a*b*", strings.Repeat("*a", 50) + "b", strings.Repeat("*?", 50) + "b"} {
			require.False(t, Match(pattern, text))
		}
	}
	require.Less(t, time.Since(start), 10*time.Second)
}

func TestMatchDoesNotAllocate(t *testing.T) {
	key := []byte("tenant:42:" + strings.Repeat("é", 50))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		Match("tenant:[0-9]*:*x", key)
	}))
}

// For random patterns, Match finds the same keys as KEYS of a real server.
func TestMatchAgreesWithRedis(t *testing.T) {
	server := redistest.Start(t)
	random := rand.New(rand.NewPCG(1, 2))
	word := func(letters string, longest int) string {
		b := make([]byte, 1+random.IntN(longest))
		for i := range b {
			b[i] = letters[random.IntN(len(letters))]
		}
		return string(b)
	}
	var keys []string
	for range 500 {
		keys = append(keys, word(`abc-]^\*A`, 5))
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	for _, k := range keys {
		require.NoError(t, server.Client.Set(t.Context(), k, "", 0).Err())
	}
	for range 3000 {
		pattern := word(`abc-][^\*?A`, 8)
		theirs, err := server.Client.Keys(t.Context(), pattern).Result()
		require.NoError(t, err)
		slices.Sort(theirs)
		ours := []string{}
		for _, k := range keys {
			if Match(pattern, k) {
				ours = append(ours, k)
			}
		}
		require.Equal(t, theirs, ours, "%q", pattern)
	}
}

// FuzzMatch compares the matcher with regular expressions made from the pattern, which
// Go matches in linear time as well.
func FuzzMatch(f *testing.F) {
	for _, s := range [][2]string{
		{"", ""}, {"*a*a*b", "aaaaab"}, {"[^a-c]?\\*", "dx*"}, {"[c-a\\]", "b"}, {"*é??", "xé日\xff"}, {"a\\", "a\\"}, {"[", "["}, {"[A-z]", "B"},
	} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		require.Equal(t, slow(t, pattern).MatchString(latin1(text)), Match(pattern, text), "%q %q", pattern, text)
	})
}

// latin1 turns each byte into a character, since regular expressions match characters.
func latin1(s string) string {
	var b strings.Builder
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// literal returns a byte as a character of a regular expression.
func literal(c byte) string { return fmt.Sprintf(`\x{%02x}`, c) }

// slow translates a pattern into a regular expression over the output of latin1.
func slow(t *testing.T, pattern string) *regexp.Regexp {
	var b strings.Builder
	b.WriteString(`(?s)\A`)
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '*':
			b.WriteString(".*")
		case c == '?':
			b.WriteString(".")
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteString("[" + literal(pattern[i]) + "]")
		case c == '[':
			i = slowSet(&b, pattern, i+1)
		default:
			b.WriteString("[" + literal(c) + "]")
		}
	}
	b.WriteString(`\z`)
	re, err := regexp.Compile(b.String())
	require.NoError(t, err, b.String())
	return re
}

// slowSet translates the set whose members begin at index i, and returns the index of its end.
func slowSet(b *strings.Builder, pattern string, i int) int {
	not := i < len(pattern) && pattern[i] == '^'
	if not {
		i++
	}
	members := ""
	for ; i < len(pattern) && pattern[i] != ']'; i++ {
		switch {
		case pattern[i] == '\\' && i+1 < len(pattern):
			i++
			members += literal(pattern[i])
		case i+2 < len(pattern) && pattern[i+1] == '-':
			low, high := min(pattern[i], pattern[i+2]), max(pattern[i], pattern[i+2])
			members += literal(low) + "-" + literal(high)
			i += 2
		default:
			members += literal(pattern[i])
		}
	}
	switch {
	case members == "" && not:
		b.WriteString(".")
	case members == "":
		b.WriteString(`[^\x{0}-\x{10ffff}]`)
	case not:
		b.WriteString("[^" + members + "]")
	default:
		b.WriteString("[" + members + "]")
	}
	return i
}

// The test takes the fastest of many tries, because other processes may interrupt some of them.
func TestStarsTakeMicroseconds(t *testing.T) {
	key, best := strings.Repeat("a", 200), time.Hour
	for range 1000 {
		start := time.Now()
		matched := Match("*a*a*a*a*b*", key)
		best = min(best, time.Since(start))
		require.False(t, matched)
	}
	t.Logf("%v for a match", best)
	require.Less(t, best, time.Millisecond)
}
