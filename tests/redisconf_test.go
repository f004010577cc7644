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

// TestRedisConf starts a node by the shipped redis.conf, as a user other than its
// default, with the rights that the file recommends: they suffice for all that a
// proxy does.
func TestRedisConf(t *testing.T) {
	b, err := os.ReadFile("../redis.conf")
	require.NoError(t, err)
	user := regexp.MustCompile(`(?m)^# +user (rlproxy .*)$`).FindStringSubmatch(string(b))
	require.NotNil(t, user)
	// The port is the harness's.
	conf := write(t, "redis.conf", strings.Replace(string(b), "\nport 6379\n", "\n", 1))
	n := redistest.Start(t, "--include", conf)
	ctx := context.Background()
	policy, err := n.Client.ConfigGet(ctx, "maxmemory-policy").Result()
	require.NoError(t, err)
	require.Equal(t, "noeviction", policy["maxmemory-policy"])
	rules := []any{"ACL", "SETUSER"}
	for _, word := range strings.Fields(user[1]) {
		rules = append(rules, word)
	}
	require.NoError(t, n.Client.Do(ctx, rules...).Err())

	p := startProxy(t, "--backend-timeout", "10000", "--fail-policy", "error", "--backend", "redis://rlproxy:password@"+n.Addr)
	c := dial(t, p.addr)
	for range 2 {
		require.Equal(t, int64(1), c.decide(t, "RL.SLIDE k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.COUNTER k 10 60").allowed)
		require.Equal(t, int64(1), c.decide(t, "RL.FIXED k 10 60").allowed)
		require.Len(t, c.do(t, "RL.INSPECT", "k"), 3)
		require.Equal(t, int64(1), c.do(t, "RL.RESET", "k"))
		require.NoError(t, n.Client.ScriptFlush(ctx).Err())
	}
	log, err := n.Client.Do(ctx, "ACL", "LOG").Slice()
	require.NoError(t, err)
	require.Empty(t, log, "the node refused something")
	p.stop(t)
}
