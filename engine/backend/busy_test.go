package backend

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// If a function of the library does not end by itself, it is ended, and the node is up again.
// A function of another library is left running. By the time that a node says that it is busy,
// requests may have timed out and closed every connection to it.
func TestFunctionThatKeepsTheNodeBusyIsEnded(t *testing.T) {
	for _, tt := range []struct {
		function string
		own      bool
	}{{"rl_decide_0123456789ab", true}, {"theirs", false}} {
		t.Run(tt.function, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, "--busy-reply-threshold", "10")
			s.Do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function{function_name='"+tt.function+
				"', flags={'no-writes'}, callback=function() while true do end end}")
			f := openTest(t, Config{Backends: []string{s.URL()}})
			n := f.Topology().Nodes[0]
			require.NoError(t, n.Client().Ping(t.Context()).Err())

			other := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, ReadTimeout: time.Minute})
			t.Cleanup(func() { _ = other.Close() })
			ended := make(chan error, 1)
			go func() { // until the function is ended
				ended <- other.Do(context.Background(), "fcall", tt.function, 0).Err()
			}()
			busy := func() bool { return isBusy(n.Client().Get(t.Context(), "k").Err()) }
			require.Eventually(t, busy, 20*time.Second, time.Millisecond)
			n.conns.DropAll()
			n.Record(Reply("BUSY Redis is busy running a script."))
			if tt.own {
				require.ErrorContains(t, <-ended, "killed")
				require.Eventually(t, func() bool { return n.Health() == Up }, 20*time.Second, time.Millisecond)
				return
			}
			n.endBusyFunction(t.Context())
			require.True(t, busy())
			require.NoError(t, n.Client().Do(t.Context(), "function", "kill").Err())
			require.ErrorContains(t, <-ended, "killed")
		})
	}
}

// Redis refuses to end a function that has written. The log does not claim that it was ended.
func TestFunctionThatHasWrittenIsNotEnded(t *testing.T) {
	var log bytes.Buffer
	s := redistest.Start(t, "--busy-reply-threshold", "10")
	s.Do("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('rl_write', function(keys) redis.call('set', keys[1], '') while true do end end)")
	n := openTest(t, Config{Backends: []string{s.URL()}, Logger: slog.New(slog.NewTextHandler(&log, nil))}).Topology().Nodes[0]
	require.NoError(t, n.Client().Ping(t.Context()).Err())
	go func() { // until the server is killed
		_ = s.Client.Do(context.Background(), "fcall", "rl_write", 1, "k").Err()
	}()
	require.Eventually(t, func() bool { return isBusy(n.Client().Get(t.Context(), "k").Err()) }, 20*time.Second, time.Millisecond)
	n.endBusyFunction(t.Context())
	require.Contains(t, log.String(), `msg="cannot end the function that keeps the node busy"`)
	require.Contains(t, log.String(), "function=rl_write why=\"UNKILLABLE ")
	require.NotContains(t, log.String(), "ended")
	s.Kill()
}
