package commands

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

func TestInfoHasTheFieldsThatClientsReadInRedis(t *testing.T) {
	server := redistest.Start(t)
	pipeline := dialogue(t, "INFO")
	theirs := infoFields(strings.ReplaceAll(exchange(t, server.Addr, pipeline), "txt:", ""))
	h := New(testConfig(newFakeEngine()))
	ours := infoFields(strings.ReplaceAll(ask(h, open(h, 1), pipeline...), "txt:", ""))
	for _, name := range []string{"redis_mode", "loading", "role", "connected_slaves", "cluster_enabled", "arch_bits"} {
		require.NotEmpty(t, ours[name], name)
		require.Equal(t, theirs[name], ours[name], name)
	}
	require.Len(t, ours["run_id"], len(theirs["run_id"]))
}
