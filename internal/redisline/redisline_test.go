package redisline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// White space as C has it is skipped before a word, and only some of it ends one, as in Redis.
func TestSplitFollowsRedis(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{" \t\v\f\r\n", nil},
		{"get\tk\r\n", []string{"get", "k"}},
		{"\va\vb\fc", []string{"a\vb\fc"}},
		{"a\x00b", []string{"a\x00b"}},
		{`a"b c"`, []string{"ab c"}},
		{`"\n\r\t\b\a\"\\\q"`, []string{"\n\r\t\b\a\"\\q"}},
		{`"\x41\xfF\xg1\x4"`, []string{"A\xffxg1x4"}},
		{`'a\'b\n"' ""`, []string{`a'b\n"`, ""}},
	} {
		words, ok := Split([]byte(c.line))
		require.True(t, ok, "%q", c.line)
		var got []string
		for _, w := range words {
			got = append(got, string(w))
		}
		require.Equal(t, c.want, got, "%q", c.line)
		require.GreaterOrEqual(t, Count([]byte(c.line)), len(got), "%q", c.line)
	}
	for _, line := range []string{`"`, `'`, `a "b`, `"a"b`, `'a'b`, `"a\`, `"a\"`, `'a\'`} {
		_, ok := Split([]byte(line))
		require.False(t, ok, line)
	}
}
