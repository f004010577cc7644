package forward

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/stretchr/testify/require"
)

func TestParseArrayReadsNestedArraysAndErrors(t *testing.T) {
	list, err := parseArray([]byte("*5\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n+x\r\n*1\r\n*0\r\n"))
	require.NoError(t, err)
	require.Equal(t, []any{"a\r\n", int64(-7), nil, "x", []any{[]any{}}}, list)
	_, err = parseArray([]byte("-NOPERM no\r\n"))
	require.True(t, backend.IsReply(err))
	require.EqualError(t, err, "NOPERM no")
}

func FuzzParseArray(f *testing.F) {
	f.Add([]byte("*5\r\n$3\r\na\r\n\r\n:-7\r\n$-1\r\n+x\r\n*1\r\n*0\r\n"))
	f.Add([]byte("*1000000\r\n"))
	f.Add([]byte("$9223372036854775807\r\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parseArray(raw)
		require.LessOrEqual(t, len(list), len(raw))
		require.True(t, err == nil || list == nil)
	})
}
