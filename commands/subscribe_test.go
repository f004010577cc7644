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

// CLIENT REPLY suppresses no message, but the error of a subscription: the client does not wait for it.
func TestClientReplySuppressesErrorsOfSubscriptions(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	long := "SUBSCRIBE a " + strings.Repeat("x", maxChannelBytes)
	const messages = "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*3\r\n$11\r\nunsubscribe\r\n$1\r\na\r\n:0\r\n"
	require.Equal(t, messages+"+OK\r\n", ask(h, open(h, 1), lines("CLIENT REPLY OFF\n"+long+"\nUNSUBSCRIBE\nCLIENT REPLY ON")...))
}
