package tests

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

func TestMonitoringToolsGetValidReplies(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		require.Regexp(t, `^\d+ \d+ \d+\.\d+ \d+\n$`, cli(t, p, "--latency"))

		stat := spawn(t, "redis-cli", "-p", port(t, p.addr), "--stat", "-i", "0.001")
		eventually(t, "lines of --stat", func() bool { return strings.Count(stat.Output.String(), "\n") > 30 })
		stat.Kill()
		require.Regexp(t, `(?m)^\d+ +\d+\.\d+[KM] +\d+ +0 +\d+ \(\+\d+\) +\d+ +$`, stat.Output.String())
		require.NotContains(t, stat.Output.String(), "-9223372036854775808", "a field is missing in INFO")

		ctx, c := context.Background(), p.client(t, 2)
		require.NoError(t, c.Do(ctx, "RL.SLIDE", "a", 5, 60).Err())
		require.Error(t, c.Do(ctx, "RL.SLIDE", "a", 5, "never").Err())
		info, err := c.InfoMap(ctx, "everything").Result()
		require.NoError(t, err)
		require.Regexp(t, `^calls=2,usec=\d+,usec_per_call=\d+\.\d\d,rejected_calls=0,failed_calls=1$`, info["Commandstats"]["cmdstat_rl.slide"])
		require.Regexp(t, `^p50=\d+\.\d{3},p99=\d+\.\d{3},p99\.9=\d+\.\d{3}$`, info["Latencystats"]["latency_percentiles_usec_rl.slide"])
		require.Regexp(t, `^count=\d+$`, info["Errorstats"]["errorstat_ERR"])
		require.NotEmpty(t, info["Engine"])
		_, embedded := info["Keyspace"]
		require.Equal(t, info["Engine"]["engine"] == "embedded", embedded)
		if embedded {
			require.Equal(t, "keys=1,expires=1,avg_ttl=0", info["Keyspace"]["db0"])
		}
		count, err := c.Do(ctx, "COMMAND", "COUNT").Int()
		require.NoError(t, err)
		all, err := c.Do(ctx, "COMMAND").Slice()
		require.NoError(t, err)
		require.Len(t, all, count)
		keys, err := c.DBSize(ctx).Result()
		require.NoError(t, err)
		require.Positive(t, keys)
		for _, line := range []string{"CONFIG GET *", "CLIENT LIST", "LATENCY HISTOGRAM", "SLOWLOG GET 128"} {
			require.NoError(t, c.Do(ctx, words(line)...).Err(), line)
		}
		for _, line := range []string{"MEMORY USAGE a", "SCAN 0", "MODULE LIST"} { // an answer, or an error that says why there is none
			if err := c.Do(ctx, words(line)...).Err(); err != nil && !errors.Is(err, redis.Nil) {
				require.Regexp(t, regexp.MustCompile(`forwarded only with backend|is not forwarded|several nodes`), err.Error(), line)
			}
		}
	})
}

func TestSlowLogIsConfigured(t *testing.T) {
	t.Parallel()
	const users = "user default on nopass ~* +@all\nuser shop on >secret ~* +@all -@admin\n"
	conf := write(t, "rlproxy.conf", users+"slowlog-log-slower-than -1\n")
	p := startProxy(t, "--include", conf)
	ctx, c := context.Background(), p.client(t, 3).Conn() // one connection, which has a name
	defer func() { require.NoError(t, c.Close()) }()
	decide := func() { require.NoError(t, c.Do(ctx, "RL.SLIDE", "a", 5, 60).Err()) }
	length := func() int64 {
		n, err := c.Do(ctx, "SLOWLOG", "LEN").Int64()
		require.NoError(t, err)
		return n
	}
	decide()
	require.Zero(t, length())

	rewrite(t, conf, users+"slowlog-log-slower-than 0\nslowlog-max-len 3\n")
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "the new setting", func() bool { decide(); return length() == 3 })
	require.NoError(t, c.Do(ctx, "SLOWLOG", "RESET").Err())
	require.NoError(t, c.Do(ctx, "CLIENT", "SETNAME", "worker").Err())
	pipe := c.Pipeline()
	for range 3 {
		pipe.Do(ctx, "RL.SLIDE", "b", 5, 60)
	}
	_, err := pipe.Exec(ctx)
	require.NoError(t, err)
	entries, err := c.SlowLogGet(ctx, 1).Result()
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.Equal(t, []string{"RL.SLIDE", "b", "5", "60", "... (2 more commands in the pipeline)"}, entries[0].Args)
	require.Equal(t, "worker", entries[0].ClientName)
	require.WithinDuration(t, time.Now(), entries[0].Time, patience)

	shop := p.client(t, 2).Conn()
	defer func() { require.NoError(t, shop.Close()) }()
	require.NoError(t, shop.Do(ctx, "AUTH", "shop", "secret").Err())
	for _, line := range []string{"SLOWLOG GET", "SLOWLOG LEN", "SLOWLOG RESET", "LATENCY HISTOGRAM", "CONFIG RESETSTAT", "MODULE LIST"} {
		name := strings.ToLower(strings.Join(strings.Fields(line), "|"))
		require.EqualError(t, shop.Do(ctx, words(line)...).Err(), "NOPERM this user has no permissions to run the '"+name+"' command")
	}
	require.NoError(t, shop.Do(ctx, "SLOWLOG", "HELP").Err())

	rewrite(t, conf, users+"slowlog-log-slower-than -1\nslowlog-max-len 2\n")
	p.Signal(t, syscall.SIGHUP)
	eventually(t, "the shorter log", func() bool { return length() == 2 })

	_, out := outcome(t, "--slowlog-max-len", "10001")
	require.Equal(t, "rlproxy: command line: slowlog-max-len must be an integer from 0 to 10000; it was \"10001\"\n", out)
	_, out = outcome(t, "--slowlog-log-slower-than", "10ms")
	require.Equal(t, "rlproxy: command line: slowlog-log-slower-than must be microseconds, an integer from -1 to 2147483647; it was \"10ms\"\n", out)
}
