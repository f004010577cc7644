package reply

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/resp"
)

func TestRepliesUseTheTypesOfTheProtocol(t *testing.T) {
	for _, c := range []struct {
		write      func(w Writer)
		two, three string
	}{
		{func(w Writer) { w.Error("ERR no") }, "-ERR no\r\n", "-ERR no\r\n"},
		{func(w Writer) { w.OK() }, "+OK\r\n", "+OK\r\n"},
		{func(w Writer) { w.Int(-7) }, ":-7\r\n", ":-7\r\n"},
		{func(w Writer) { w.Bulk([]byte("a\r\n")) }, "$3\r\na\r\n\r\n", "$3\r\na\r\n\r\n"},
		{func(w Writer) { w.Texts([]string{"a", ""}) }, "*2\r\n$1\r\na\r\n$0\r\n\r\n", "*2\r\n$1\r\na\r\n$0\r\n\r\n"},
		{func(w Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		{func(w Writer) { w.Map(1); w.Field("a", "b") }, "*2\r\n$1\r\na\r\n$1\r\nb\r\n", "%1\r\n$1\r\na\r\n$1\r\nb\r\n"},
		{func(w Writer) { w.Set(0) }, "*0\r\n", "~0\r\n"},
		{func(w Writer) { w.Statuses([]string{"a"}) }, "*1\r\n+a\r\n", "~1\r\n+a\r\n"},
		{func(w Writer) { w.Message(3) }, "*3\r\n", ">3\r\n"},
		{func(w Writer) { w.Verbatim("a b") }, "$3\r\na b\r\n", "=7\r\ntxt:a b\r\n"},
	} {
		for proto, want := range map[int]string{2: c.two, 3: c.three} {
			s := &resp.Session{Proto: proto}
			c.write(To(s))
			require.Equal(t, want, string(s.Out), "RESP%d", proto)
		}
	}
}
