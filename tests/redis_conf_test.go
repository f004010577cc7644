package tests

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/redistest"
)

// TestShippedRedisConfGivesAProxyAllItNeeds starts a node with the shipped redis.conf. A
// proxy connects as the user that the file recommends, whose rights suffice for everything
// that a proxy does.
func TestShippedRedisConfGivesAProxyAllItNeeds(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile("../redis.conf")
	require.NoError(t, err)
	// The test chooses the port.
	conf := write(t, "redis.conf", strings.Replace(string(b), "\nport 6379\n", "\n", 1))
	n := redistest.Start(t, "--include", conf)
	ctx := context.Background()
	policy, err := n.Client.ConfigGet(ctx, "maxmemory-policy").Result()
	require.NoError(t, err)
	require.Equal(t, "noeviction", policy["maxmemory-policy"])
	stops, err := n.Client.ConfigGet(ctx, "stop-writes-on-bgsave-error").Result()
	require.NoError(t, err)
	require.Equal(t, "no", stops["stop-writes-on-bgsave-error"])
	k := backendKind{nodes: []*redistest.Server{n}, urls: []string{n.URL()}}
	p := startProxy(t, k.as(t, documentedUsers(t, "../redis.conf")[0])...)
	c := dial(t, p.addr)
	for range 2 {
		require.Equal(t, int64(1), c.decide(t, "RL.SLIDE k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.COUNTER k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.FIXED k 10 60").allowed)
		require.Len(t, c.do(t, "RL.INSPECT", "k"), 3)
		require.Equal(t, int64(1), c.do(t, "RL.RESET", "k"))
		require.NoError(t, n.Client.FunctionFlush(ctx).Err())
	}
	require.Empty(t, k.refused(t, n), "the node refused a command")
	p.stop(t)
}
