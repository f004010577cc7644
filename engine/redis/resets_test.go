package redis

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/stretchr/testify/require"
)

// A malformed message from a node is dropped, and later messages are received.
func TestMalformedResetMessage(t *testing.T) {
	n := startFake(t)
	n.set(func(args []string) reply {
		if args[0] == "subscribe" {
			return reply{text: "*1\r\n:1\r\n*1\r\n$7\r\nmessage\r\n*0\r\n*2\r\n$9\r\nsubscribe\r\n*0\r\n" +
				"*3\r\n$7\r\nmessage\r\n$8\r\nrl:reset\r\n$6\r\nrl:{k}\r\n"}
		}
		return n.well(args)
	})
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	e := openOn(t, backend.Config{Backends: []string{"redis://" + n.addr}, Timeout: time.Second, Logger: logger}, Config{Logger: logger})
	require.Eventually(t, func() bool { return e.denials.Resets() > 0 }, 20*time.Second, time.Millisecond, "the last message is heard")
	require.NotContains(t, log.String(), "internal error")
}

// Opening a queue does not wait for its node, because it is done with a lock that requests to other nodes need.
func TestOpeningAQueueDoesNotWaitForItsNode(t *testing.T) {
	const timeout = 2 * time.Second
	var urls []string
	for range 3 {
		hung, err := net.Listen("tcp", "127.0.0.1:0") // nobody accepts
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, hung.Close()) })
		urls = append(urls, "redis://"+hung.Addr().String())
	}
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: timeout})
	require.NoError(t, err)
	began := time.Now()
	e := Open(fleet, Config{})
	took := time.Since(began)
	require.NoError(t, e.Close())
	require.NoError(t, fleet.Close())
	require.Less(t, took, timeout)
}
