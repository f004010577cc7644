package traffic

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEncode(t *testing.T) {
	require.Equal(t, "*2\r\n$4\r\nINCR\r\n$14\r\nk:000000000042\r\n", string(Encode(nil, []string{"INCR", "k:" + Variable}, 42)))
}

func TestReadReply(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("+PONG\r\n*2\r\n:1\r\n$2\r\nab\r\n-ERR no\r\n"))
	for _, want := range []string{"PONG", "1 ab"} {
		reply, err := readReply(r)
		require.NoError(t, err)
		require.Equal(t, want, reply)
	}
	_, err := readReply(r)
	require.EqualError(t, err, "ERR no")
}
