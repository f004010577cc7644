package tests

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestDrainAnswersWhatHasArrived stops a proxy under load. A client that has sent a
// pipeline gets all replies, or none if the proxy had not begun to read it. Exactly the
// requests that were answered are charged.
func TestDrainAnswersWhatHasArrived(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	for name, args := range map[string][]string{"embedded": nil, "redis": backends(n)} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t, args...)
			const clients, depth = 20, 16
			var busy, answered atomic.Int64
			var wg sync.WaitGroup
			for range clients {
				c := dial(t, p.addr)
				wg.Add(1)
				go func() { // ends when the proxy closes the connection
					defer wg.Done()
					pipeline := make([][]any, depth)
					for i := range pipeline {
						pipeline[i] = words("RL.SLIDE drain 1000000000 3600")
					}
					for first := true; ; first = false {
						replies, err := c.Exchange(pipeline...)
						answered.Add(int64(len(replies)))
						if first {
							busy.Add(1)
						}
						if err != nil {
							if len(replies) != 0 {
								t.Errorf("%d of %d replies, then %v", len(replies), depth, err)
							}
							if !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE) {
								t.Errorf("not closed by the drain: %v", err)
							}
							return
						}
					}
				}()
			}
			eventually(t, "all clients to be busy", func() bool { return busy.Load() == clients })
			began := time.Now()
			p.stop(t)
			require.Less(t, time.Since(began), 10*time.Second)
			wg.Wait()
			_, err := net.Dial("tcp", p.addr)
			require.ErrorIs(t, err, syscall.ECONNREFUSED)
			if name == "redis" {
				p := startProxy(t, args...)
				c := dial(t, p.addr)
				d := c.decide(t, "RL.SLIDE drain 1000000000 3600 COST 0")
				require.Equal(t, answered.Load(), d.limit-d.remaining, "charged, but not answered")
				p.stop(t)
			}
		})
	}
}

// TestSecondSignalEndsTheProcess stops a proxy that cannot drain because its node hangs.
func TestSecondSignalEndsTheProcess(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--backend-timeout", "60000", "--shutdown-timeout", "600")
	c := dial(t, p.addr)
	c.decide(t, "RL.SLIDE k 10 60")
	n.Pause()
	_, err := c.Write(appendCommand(nil, words("RL.SLIDE k 10 60")...))
	require.NoError(t, err)
	p.Signal(t, syscall.SIGTERM)
	eventually(t, "the drain to begin", func() bool {
		nc, err := net.Dial("tcp", p.addr)
		if err == nil {
			_ = nc.Close() // the listener is still open
		}
		return err != nil
	})
	require.True(t, p.Running())
	p.Signal(t, syscall.SIGTERM)
	require.Equal(t, -1, p.Exit(t))
}

// TestShutdownTimeoutBoundsTheDrain stops a proxy that waits at most a second for such a node.
func TestShutdownTimeoutBoundsTheDrain(t *testing.T) {
	t.Parallel()
	n := startNode(t)
	p := startProxy(t, "--backend", n.URL(), "--backend-timeout", "60000", "--shutdown-timeout", "1")
	c := dial(t, p.addr)
	c.decide(t, "RL.SLIDE k 10 60")
	n.Pause()
	_, err := c.Write(appendCommand(nil, words("RL.SLIDE k 10 60")...))
	require.NoError(t, err)
	p.Signal(t, syscall.SIGTERM)
	began := time.Now()
	require.Equal(t, 1, p.Exit(t))
	require.Less(t, time.Since(began), 10*time.Second)
	require.Contains(t, p.Output.String(), "shutdown-timeout")
}

// TestShutdownTimeoutStopsEverything stops a proxy while a client does not read its replies. The
// HTTP server still stops, and the decision log has a line for each denial or counts it.
func TestShutdownTimeoutStopsEverything(t *testing.T) {
	t.Parallel()
	l, args := newDecisionLog(t, "--shutdown-timeout", "1")
	s := startHTTP(t, args...)
	deaf := dial(t, s.addr)
	echo := appendCommand(nil, []any{"ECHO", strings.Repeat("x", 1<<20)})
	_, err := deaf.Write(bytes.Repeat(echo, 16))
	require.NoError(t, err)
	c := dial(t, s.addr)
	const keys = 1500 // more than the log has lines for in a second
	var asked [][]any
	for i := range keys {
		asked = append(asked, words(fmt.Sprintf("RL.SLIDE k%d 1 60", i)), words(fmt.Sprintf("RL.SLIDE k%d 1 60", i)))
	}
	c.pipeline(t, asked...)
	s.Signal(t, syscall.SIGTERM)
	require.Equal(t, 1, s.Exit(t))
	require.Contains(t, s.Output.String(), "shutdown-timeout")
	require.Contains(t, s.Output.String(), "msg=stopped")
	sum := 0
	for _, line := range l.lines(t) {
		if line["event"] == "left_out" {
			sum += int(line["count"].(float64))
			continue
		}
		sum++
	}
	require.Equal(t, keys, sum)
}
