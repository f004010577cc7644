package resp

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepliesInBothProtocols(t *testing.T) {
	for _, c := range []struct {
		name         string
		f            func(proto int) []byte
		resp2, resp3 string
	}{
		{"integer", func(int) []byte { return AppendInt(nil, -12) }, ":-12\r\n", ":-12\r\n"},
		{"largest", func(int) []byte { return AppendInt(nil, math.MinInt64) }, ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"},
		{"bulk", func(int) []byte { return AppendBulk(nil, []byte("a\r\nb")) }, "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"},
		{"empty", func(int) []byte { return AppendBulkString(nil, "") }, "$0\r\n\r\n", "$0\r\n\r\n"},
		{"simple", func(int) []byte { return AppendSimple(nil, "O\nK") }, "+O K\r\n", "+O K\r\n"},
		{"error", func(int) []byte { return AppendError(nil, "ERR a\r\n+b") }, "-ERR a  +b\r\n", "-ERR a  +b\r\n"},
		{"array", func(int) []byte { return AppendArray(nil, 12) }, "*12\r\n", "*12\r\n"},
		{"map", func(p int) []byte { return AppendMap(nil, p, 7) }, "*14\r\n", "%7\r\n"},
		{"push", func(p int) []byte { return AppendPush(nil, p, 3) }, "*3\r\n", ">3\r\n"},
		{"null", func(p int) []byte { return AppendNull(nil, p) }, "$-1\r\n", "_\r\n"},
	} {
		require.Equal(t, c.resp2, string(c.f(2)), c.name)
		require.Equal(t, c.resp3, string(c.f(3)), c.name)
	}
}
