package word

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSplitLineFollowsRedisQuoting(t *testing.T) {
	for _, c := range []struct {
		line string
		want []string
	}{
		{``, nil},
		{" \t", nil},
		{`port 6380`, []string{"port", "6380"}},
		{"a\tb  c ", []string{"a", "b", "c"}},
		{`requirepass ""`, []string{"requirepass", ""}},
		{`a "b c" d`, []string{"a", "b c", "d"}},
		{`a"b c"`, []string{"ab c"}},
		{`"\n\r\t\b\a\"\\\q"`, []string{"\n\r\t\b\a\"\\q"}},
		{`"\x41\xfF\xg1\x4"`, []string{"A\xffxg1x4"}},
		{"\"\\x1\x10\"", []string{"x1\x10"}},
		{`'a\'b\n"'`, []string{`a'b\n"`}},
		{`it#s`, []string{"it#s"}},
	} {
		got, err := SplitLine(c.line)
		require.NoError(t, err, c.line)
		require.Equal(t, c.want, got, c.line)
	}
	for _, line := range []string{`"`, `'`, `a "b`, `"a"b`, `'a'b`, `"a\`, `"a\"`, `'a\'`} {
		_, err := SplitLine(line)
		require.ErrorIs(t, err, ErrQuotes, line)
	}
}

func FuzzInLine(f *testing.F) {
	for _, w := range []string{"", "a", "a b", `"\'#`, "\x00\n\xff\x7f"} {
		f.Add(w)
	}
	f.Fuzz(func(t *testing.T, word string) {
		words, err := SplitLine(InLine(word))
		require.NoError(t, err)
		require.Equal(t, []string{word}, words)
	})
}
