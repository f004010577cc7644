package commands

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
)

func TestSubscriptionsAreBounded(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	s.Proto = 3
	many := words("SUBSCRIBE")
	for i := range maxChannels + 1 {
		many = append(many, []byte(strconv.Itoa(i)))
	}
	require.Contains(t, ask(h, s, many), reply.ErrChannels)
	require.Len(t, s.Data.(*client).subs, maxChannels)
	require.Contains(t, ask(h, s, words("UNSUBSCRIBE")), ":0\r\n")
	require.Contains(t, ask(h, s, words("SUBSCRIBE", strings.Repeat("x", maxChannelBytes+1))), reply.ErrChannels)
	require.Zero(t, s.Data.(*client).subSize)
}
