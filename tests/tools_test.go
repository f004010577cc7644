package tests

import (
	"context"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// cli runs redis-cli against a proxy and returns its output.
func cli(t *testing.T, p *proxy, args ...string) string {
	t.Helper()
	out, err := exec.Command("redis-cli", append([]string{"-p", port(t, p.addr)}, args...)...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestRedisCLIWorks(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		require.Equal(t, "PONG\n", cli(t, p, "PING"))
		require.Equal(t, "1\n5\n4\n0\n60001\n", cli(t, p, "RL.SLIDE", "two", "5", "60"))
		require.Equal(t, "1) (integer) 1\n2) (integer) 5\n3) (integer) 4\n4) (integer) 0\n5) (integer) 60001\n",
			cli(t, p, "-3", "--no-raw", "RL.SLIDE", "three", "5", "60"))
		require.Contains(t, cli(t, p, "-3", "--no-raw", "RL.INSPECT", "three"), `"command" => "RL.SLIDE"`)
		require.Contains(t, cli(t, p, "RL.SLIDE", "k"), "ERR wrong number of arguments for 'rl.slide' command")
		require.Contains(t, cli(t, p, "RL.RESET", "t*"), "ERR no key had state, and RL.RESET takes keys, not patterns")
		require.Equal(t, "2\n", cli(t, p, "RL.RESET", "two", "three"))
		require.Contains(t, cli(t, p, "RL.SLIDES", "k", "5", "60"), "(the nearest is RL.SLIDE; RL.HELP lists all)")
		require.Contains(t, cli(t, p, "RL.HELP"), "RL.SLIDE key limit window ")
	})
}

func TestRedisBenchmarkWorks(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		out, err := exec.Command("redis-benchmark", "-p", port(t, p.addr), "-n", "20000", "-r", "1000", "-P", "16", "-q",
			"RL.SLIDE", "k:__rand_int__", "100", "60").CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "requests per second")
		require.NotContains(t, string(out), "rror")
	})
}

func TestGoRedisWorks(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		ctx := context.Background()
		for protocol := 2; protocol <= 3; protocol++ {
			c := p.client(t, protocol)
			require.NoError(t, c.Ping(ctx).Err())
			require.NoError(t, c.Do(ctx, "RL.RESET", "g").Err())
			for left := int64(4); left >= 0; left-- {
				got, err := c.Do(ctx, "RL.FIXED", "g", 5, "365d").Int64Slice()
				require.NoError(t, err)
				require.Equal(t, []int64{1, 5, left, 0}, got[:4])
			}
			require.ErrorContains(t, c.Do(ctx, "RL.FIXED", "g", 5).Err(), "ERR wrong number of arguments for 'rl.fixed' command; usage: RL.FIXED key limit window ")
			pipe := c.Pipeline()
			for range 50 {
				pipe.Do(ctx, "RL.SLIDE", "p", 1_000_000, "1h")
			}
			cmds, err := pipe.Exec(ctx)
			require.NoError(t, err)
			require.Len(t, cmds, 50)
			states, err := c.Do(ctx, "RL.INSPECT", "p").Slice()
			require.NoError(t, err)
			require.Len(t, states, 1)
		}
	})
}
