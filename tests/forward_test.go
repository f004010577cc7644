package tests

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// TestForwardedCommandsReachTheNodes uses one connection for rate limits and for forwarded
// commands, with each protocol, with one node and with three.
func TestForwardedCommandsReachTheNodes(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for _, count := range []int{1, 3} {
		p := startProxy(t, backends(startNodes(t, count)...)...)
		for _, protocol := range []int{2, 3} {
			c := p.client(t, protocol)
			require.NoError(t, c.MSet(ctx, "a", 1, "b", 2, "c", 3).Err())
			require.Equal(t, []any{"1", nil, "3", "2"}, c.MGet(ctx, "a", "none", "c", "b").Val())
			require.NoError(t, c.HSet(ctx, "h", "f", "v").Err())
			require.Equal(t, map[string]string{"f": "v"}, c.HGetAll(ctx, "h").Val())
			require.Equal(t, "x", redis.NewScript("return redis.call('SET', KEYS[1], ARGV[1]) and ARGV[1]").Run(ctx, c, []string{"s"}, "x").Val())
			tx := c.TxPipeline()
			limit := tx.Do(ctx, "RL.SLIDE", fmt.Sprint("user", protocol), 1, 60)
			incr := tx.Incr(ctx, "a")
			_, err := tx.Exec(ctx)
			require.NoError(t, err)
			require.Equal(t, int64(1), limit.Val().([]any)[0])
			require.Equal(t, int64(2), incr.Val())
			require.ErrorContains(t, c.FlushAll(ctx).Err(), "passthrough-admin")
			require.Equal(t, int64(4), c.Del(ctx, "a", "b", "c", "s", "none").Val())
		}
		p.stop(t)
	}
}

// TestPassthroughDirectivesRestrictForwarding turns forwarding off, allows administrative
// commands, and bounds how long a node may take.
func TestPassthroughDirectivesRestrictForwarding(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	node := startNode(t)
	off := startProxy(t, append(backends(node), "--passthrough", "no")...)
	require.ErrorContains(t, off.client(t, 3).Get(ctx, "a").Err(), "unknown command 'get'")
	off.stop(t)
	admin := startProxy(t, append(backends(node), "--passthrough-admin", "yes")...)
	require.NoError(t, node.Set(ctx, "a", 1, 0).Err())
	require.NoError(t, admin.client(t, 3).FlushAll(ctx).Err())
	require.Empty(t, node.keys(t))
	admin.stop(t)
	hurried := startProxy(t, append(backends(node), "--passthrough-timeout", "500")...)
	c := hurried.client(t, 3)
	eventually(t, "the node to answer in time", func() bool { return errors.Is(c.Get(ctx, "a").Err(), redis.Nil) })
	node.Pause()
	require.ErrorContains(t, c.Get(ctx, "a").Err(), "UNAVAILABLE "+node.Addr+": no answer in time")
	node.Resume()
	hurried.stop(t)
}

// TestPipelineBeyondTheBoundTakesLittleMemory reads at once 100 replies of 1 MB, while 16 MB may wait for the client. A
// client that reads nothing does not keep others waiting.
func TestPipelineBeyondTheBoundTakesLittleMemory(t *testing.T) {
	t.Parallel()
	const size, replies, limit = 1 << 20, 100, 16
	node := startNode(t)
	require.NoError(t, node.SetRange(context.Background(), "big", size-1, "x").Err())
	bound := strconv.Itoa(limit) + "mb"
	p := startProxy(t, append(backends(node), "--client-output-buffer-limit", "normal", bound, "0", "0", "--maxmemory-clients", bound)...)
	gets := slices.Repeat([][]any{{"GET", "big"}}, replies)
	for range 2 {
		got := dial(t, p.addr).pipeline(t, gets...)
		require.Len(t, got, replies)
		for i, reply := range got {
			require.Len(t, reply, size, i)
		}
	}
	silent, err := net.Dial("tcp", p.addr)
	require.NoError(t, err)
	_, err = silent.Write(bytes.Repeat([]byte("*2\r\n$3\r\nGET\r\n$3\r\nbig\r\n"), replies))
	require.NoError(t, err)
	require.Equal(t, int64(1), dial(t, p.addr).do(t, "EXISTS", "big"))
	if !raceEnabled {
		require.Less(t, peakMB(t, p.Cmd.Process.Pid), limit+besidesMB)
	}
	require.NoError(t, silent.Close())
	p.stop(t)
}

// TestLargeReplyPassesInLittleMemory reads a reply of 100 MB from a node. The proxy needs little
// more memory than that.
func TestLargeReplyPassesInLittleMemory(t *testing.T) {
	t.Parallel()
	size := 100 << 20
	if raceEnabled {
		size /= 5
	}
	node := startNode(t)
	require.NoError(t, node.SetRange(context.Background(), "big", int64(size-1), "x").Err())
	p := startProxy(t, backends(node)...)
	c := dial(t, p.addr)
	for range 3 {
		replies := c.pipeline(t, []any{"GET", "big"}, []any{"EXISTS", "big"})
		require.Len(t, replies[0], size)
		require.Equal(t, int64(1), replies[1])
	}
	limit := size >> 20 * 7 / 2 // MB: one reply, and the previous one that is not yet collected
	if raceEnabled {
		limit *= 6
	}
	require.Less(t, peakMB(t, p.Cmd.Process.Pid), limit)
	p.stop(t)
}
