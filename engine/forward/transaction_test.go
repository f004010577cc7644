package forward

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// In the lines, %[1]s to %[3]s are keys on different nodes.
func TestTransactionStaysOnOneNode(t *testing.T) {
	f := open(t, nil, startServers(t, 3)...)
	keys := keysOn(f)
	var p Pipeline
	var tx Transaction
	join := func(line string) error {
		return f.Join(&p, &tx, commandLine(t, fmt.Sprintf(line+"%.0[1]s%.0[2]s%.0[3]s", keys...)))
	}
	for _, line := range []string{"TIME", "GET %[2]s", "SET %[2]s 1", "MGET %[2]s %[2]s", "EVAL x 1 %[2]s"} {
		require.NoError(t, join(line), line)
	}
	for _, line := range []string{"GET %[1]s", "SET %[3]s 1", "MGET %[2]s %[1]s", "DEL %[2]s %[3]s", "EVAL x 1 %[1]s"} {
		require.Equal(t, errSeveralNodes, join(line), line)
	}
	for _, line := range []string{"DBSIZE", "SCRIPT LOAD x"} {
		require.ErrorContains(t, join(line), "is not forwarded in a transaction: it goes to all nodes", line)
	}
	require.EqualError(t, join("GET"), "ERR wrong number of arguments for 'get' command")
	require.EqualError(t, join("OBJECT FREQ"), "ERR wrong number of arguments for 'object|freq' command")
	require.NoError(t, join("GET %[2]s"))
	tx = Transaction{}
	require.Equal(t, errSeveralNodes, join("MGET %[1]s %[2]s"), "also in the first command")
	require.NoError(t, join("GET %[1]s"))
	require.Equal(t, errCrossSlot, join("RENAME %[1]s %[2]s"))
}
