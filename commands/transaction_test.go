package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/commands/reply"
)

func TestQueueIsBoundedInBytes(t *testing.T) {
	cfg := testConfig(newFakeEngine())
	cfg.MaxQueueBytes = 1100
	h := New(cfg)
	s := open(h, 1)
	big := words("ECHO", strings.Repeat("x", 900))
	require.Equal(t, "+OK\r\n+QUEUED\r\n", ask(h, s, words("MULTI"), big))
	require.Equal(t, "-"+reply.ErrQueueFull+"\r\n", ask(h, s, big))
	require.Empty(t, s.Data.(*client).tx.queue)
	require.Equal(t, "-"+reply.ErrExecAbort+"\r\n", ask(h, s, words("EXEC")))
}

func TestQueuedCommandsAreCopied(t *testing.T) {
	h := New(testConfig(newFakeEngine()))
	s := open(h, 1)
	args := words("ECHO", "hello")
	require.Equal(t, "+OK\r\n+QUEUED\r\n", ask(h, s, words("MULTI"), args))
	copy(args[1], "*****")
	require.Equal(t, "*1\r\n$5\r\nhello\r\n", ask(h, s, words("EXEC")))
}
