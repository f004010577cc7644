package table

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFitsChecksTheArity(t *testing.T) {
	exact, least := Command{Arity: 2}, Command{Arity: -2}
	for n, want := range map[int][2]bool{1: {false, false}, 2: {true, true}, 3: {false, true}} {
		require.Equal(t, want, [2]bool{exact.Fits(n), least.Fits(n)}, n)
	}
	require.Equal(t, "ERR wrong number of arguments for 'get' command", (&Command{Name: "get"}).ArityError())
}

func TestKeysOfReturnsTheKeysAmongTheWords(t *testing.T) {
	args := [][]byte{[]byte("mset"), []byte("a"), []byte("1"), []byte("b"), []byte("2")}
	for _, c := range []struct {
		keys Keys
		want [][]byte
	}{
		{Keys{}, nil},
		{Keys{First: 1, Last: 1, Step: 1}, args[1:2]},
		{Keys{First: 1, Last: -1, Step: 2}, [][]byte{args[1], args[3]}},
		{Keys{First: 1, Last: -1, Step: 1}, args[1:]},
		{Keys{First: 2, Last: -1, Step: 2, Joined: true}, [][]byte{[]byte("a:1"), []byte("b:2")}},
		{Keys{First: 1, Last: 1, Step: 1, Next: func(_ [][]byte, key int) int { return (key + 3) % 5 }}, [][]byte{args[1], args[4], args[2]}}, // 1, 4, 2, 0
	} {
		require.Equal(t, c.want, c.keys.Of(args))
	}
}
