package replies

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeysAreLeftOutOfListings(t *testing.T) {
	bulk := func(keys ...string) (s string) {
		for _, k := range keys {
			s += fmt.Sprintf("$%d\r\n%s\r\n", len(k), k)
		}
		return s
	}
	many := make([]string, 12)
	for i := range many {
		many[i] = fmt.Sprint("rl:{", i, "}")
	}
	for raw, want := range map[string]string{
		"*1\r\n" + bulk("a"):                                           "*1\r\n" + bulk("a"),
		"*2\r\n" + bulk("rl:{a}", ""):                                  "*1\r\n" + bulk(""),
		"*12\r\n" + bulk(many...):                                      "*0\r\n",
		"*13\r\n" + bulk(append(many, "a\nrl:{")...):                   "*1\r\n" + bulk("a\nrl:{"),
		"*2\r\n" + bulk("17") + "*13\r\n" + bulk(append(many, "x")...): "*2\r\n" + bulk("17") + "*1\r\n" + bulk("x"),
		"*2\r\n" + bulk("0") + "*0\r\n":                                "*2\r\n" + bulk("0") + "*0\r\n",
		"-ERR rl:{\r\n":                                                "-ERR rl:{\r\n",
		"*2\r\n" + bulk("0", "rl:{a}"):                                 "*1\r\n" + bulk("0"),
		"*2\r\n*1\r\n" + bulk("rl:{a}") + bulk("x"):                    "*2\r\n*1\r\n" + bulk("rl:{a}") + bulk("x"),
		"*2\r\n$9\r\nrl:{a\r\n":                                        "*2\r\n$9\r\nrl:{a\r\n",
	} {
		require.Equal(t, want, string(Without("rl:{", []byte(raw))), "%q", raw)
	}
	require.Nil(t, Without("rl:{", nil))
}

func FuzzWithout(f *testing.F) {
	f.Add("*2\r\n$1\r\n0\r\n*2\r\n$6\r\nrl:{a}\r\n$1\r\nb\r\n")
	f.Add("*1\r\n$4\r\nrl:{\r\n")
	f.Fuzz(func(t *testing.T, raw string) {
		require.LessOrEqual(t, len(Without("rl:{", []byte(raw))), len(raw))
	})
}
