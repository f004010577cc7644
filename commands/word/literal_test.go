package word

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestLiteralQuotesEscapesAndCuts(t *testing.T) {
	a, euro := strings.Repeat("a", Quoted), strings.Repeat("€", Quoted)
	for text, want := range map[string]string{
		"":                   `''`,
		"1e3":                `'1e3'`,
		"a b":                `'a b'`,
		"größer":             `'größer'`,
		"it's":               `'it\'s'`,
		`say "no"`:           `'say "no"'`,
		`\"`:                 `'\\"'`,
		"\r\n+OK\r\n":        `'\r\n+OK\r\n'`,
		"\x00\x1b[2J\x7f":    `'\x00\x1b[2J\x7f'`,
		"\xff\xfe":           `'\xff\xfe'`,
		"\u202e\u2028\ufeff": `'\u202e\u2028\ufeff'`,
		a:                    "'" + a + "'",
		a + "b":              "'" + a + "'... (129 bytes)",
		a[1:] + "€":          "'" + a[1:] + "'... (130 bytes)",
		euro:                 "'" + strings.Repeat("€", Quoted/3) + "'... (384 bytes)",
	} {
		require.Equal(t, want, Literal([]byte(text)), "%q", text)
	}
	for _, c := range []byte{0, '\r', 0x80, 0xff} {
		got := Literal([]byte(strings.Repeat(string([]byte{c}), 1<<20)))
		require.Less(t, len(got), 5*Quoted)
		require.Contains(t, got, "'... ("+strconv.Itoa(1<<20)+" bytes)")
	}
}

func FuzzLiteral(f *testing.F) {
	for _, text := range []string{"", "'", `\'"`, "\r\n", "€\xe2\x82", strings.Repeat("\xf0\x9f\x98\x80", 40)} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got := Literal(b)
		require.True(t, utf8.ValidString(got))
		require.False(t, strings.ContainsFunc(got, func(r rune) bool { return !strconv.IsPrint(r) }), "%q", got)
		if len(b) <= Quoted {
			inside := strings.NewReplacer(`\\`, `\\`, `\'`, `'`, `"`, `\"`).Replace(got[1 : len(got)-1])
			text, err := strconv.Unquote(`"` + inside + `"`)
			require.NoError(t, err, got)
			require.Equal(t, string(b), text, "an error says something else than was given")
		}
	})
}
