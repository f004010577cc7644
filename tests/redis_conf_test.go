package tests

import (
	"context"
	"os"
	"regexp"
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
	p := startProxy(t, "--backend-timeout", "10000", "--fail-policy", "error", "--backend", asRecommendedUser(t, n))
	c := dial(t, p.addr)
	for range 2 {
		require.Equal(t, int64(1), c.decide(t, "RL.SLIDE k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.COUNTER k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.FIXED k 10 60").allowed)
		require.Len(t, c.do(t, "RL.INSPECT", "k"), 3)
		require.Equal(t, int64(1), c.do(t, "RL.RESET", "k"))
		require.NoError(t, n.Client.FunctionFlush(ctx).Err())
	}
	log, err := n.Client.Do(ctx, "ACL", "LOG").Slice()
	require.NoError(t, err)
	require.Empty(t, log, "the node refused a command")
	p.stop(t)
}

// TestRecommendedUserSufficesForSplitKeys splits a key over two nodes on which the proxy is
// the user that redis.conf recommends. It need not fall back to scripts, and hears of
// resets.
func TestRecommendedUserSufficesForSplitKeys(t *testing.T) {
	t.Parallel()
	nodes := startNodes(t, 2)
	args := []string{"--backend-timeout", "10000", "--fail-policy", "error"}
	for _, n := range nodes {
		args = append(args, "--backend", asRecommendedUser(t, n.Server))
	}
	p := startProxy(t, args...)
	c := dial(t, p.addr)
	for i := range 20 {
		d := c.decide(t, "RL.SLIDE k 10 60 SHARDS 2")
		require.Equal(t, i < 10, d.allowed == 1, "request %d", i)
	}
	state := c.inspect(t, "k")
	require.EqualValues(t, 10, state.used)
	require.Len(t, state.shards, 2)
	require.Equal(t, int64(1), c.do(t, "RL.RESET", "k"))
	for _, n := range nodes {
		require.NotContains(t, n.Do("INFO", "commandstats"), "cmdstat_evalsha:")
		require.Contains(t, n.Do("CLIENT", "LIST", "TYPE", "pubsub"), "name=rlproxy")
		require.Empty(t, strings.Trim(n.Do("ACL", "LOG"), "[]"), "the node refused a command")
	}
	p.stop(t)
}

// asRecommendedUser makes the user that redis.conf recommends on a node, and returns the
// URL by which a proxy connects as this user.
func asRecommendedUser(t *testing.T, n *redistest.Server) string {
	t.Helper()
	b, err := os.ReadFile("../redis.conf")
	require.NoError(t, err)
	user := regexp.MustCompile(`(?m)^# +user (rlproxy .*)$`).FindStringSubmatch(string(b))
	require.NotNil(t, user)
	require.NoError(t, n.Client.Do(context.Background(), words("ACL SETUSER "+user[1])...).Err())
	return "redis://rlproxy:password@" + n.Addr
}
