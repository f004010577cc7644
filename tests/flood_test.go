package tests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// floodSize returns the number of commands of a flood, n or less. The race detector makes
// each take ten times as long; make soak runs without it.
func floodSize(n int) int {
	if raceEnabled {
		return n / 20
	}
	return n
}

// flood sends a line times times, without waiting for replies. It counts the replies, each
// of which must be want. Its goroutines end with the connection at the latest.
func flood(c *conn, line string, times int, want string) (answered *atomic.Int64, done chan error) {
	answered, done = new(atomic.Int64), make(chan error, 1)
	sent := make(chan error, 1)
	go func() {
		b := bytes.Repeat([]byte(line+"\r\n"), 1000)
		for left := times; left > 0; left -= 1000 {
			if _, err := c.Write(b[:len(line+"\r\n")*min(left, 1000)]); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	go func() {
		r := bufio.NewReader(c)
		got := make([]byte, len(want))
		for range times {
			if _, err := io.ReadFull(r, got); err != nil {
				done <- err
				return
			}
			if string(got) != want {
				done <- errors.New(string(got))
				return
			}
			answered.Add(1)
		}
		done <- <-sent
	}()
	return answered, done
}

// TestLongPipelineDoesNotStarveOthers lets one client send a million commands without
// waiting. Meanwhile another client is answered quickly. The test measures delays, so
// it does not run in parallel with others of this package.
func TestLongPipelineDoesNotStarveOthers(t *testing.T) {
	p := startProxy(t)
	other := dial(t, p.addr)
	times := floodSize(1_000_000)
	answered, done := flood(dial(t, p.addr), "RL.SLIDE busy 1 365d COST 0", times, "*5\r\n:1\r\n:1\r\n:1\r\n:0\r\n:0\r\n")
	var waits []time.Duration
	for running := true; running; {
		began := time.Now()
		other.decide(t, "RL.SLIDE calm 1000000 1h")
		if n := answered.Load(); n > 0 && n < int64(times) {
			waits = append(waits, time.Since(began))
		}
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
		}
	}
	require.Greater(t, len(waits), 20, "the other client waited for the flood to end")
	slices.Sort(waits)
	t.Logf("%d decisions during the flood, p50 %v, p99 %v, worst %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	require.Less(t, waits[len(waits)/2], 100*time.Millisecond)
	require.Less(t, waits[len(waits)-1], 5*time.Second)
	p.stop(t)
}

// TestFloodOfStrangersIsRefusedInLittleMemory lets many clients without a password send
// commands without waiting. Each command is refused, the process needs little memory, and a
// client that has logged in is still answered.
func TestFloodOfStrangersIsRefusedInLittleMemory(t *testing.T) {
	p := startProxy(t, "--requirepass", "secret")
	friend := dial(t, p.addr)
	require.Equal(t, status("OK"), friend.do(t, "AUTH", "secret"))
	times := floodSize(100_000)
	var all []chan error
	for range 10 {
		_, done := flood(dial(t, p.addr), "RL.SLIDE k 5 60", times, "-"+string(errAuth)+"\r\n")
		all = append(all, done)
		_, done = flood(dial(t, p.addr), "AUTH guess", 10, "-"+string(errLogin)+"\r\n") // the tenth closes the connection
		all = append(all, done)
	}
	for _, done := range all {
		for waiting := true; waiting; {
			select {
			case err := <-done:
				require.NoError(t, err)
				waiting = false
			case <-time.After(time.Millisecond): // leaves the processor to the others
				require.Equal(t, status("PONG"), friend.do(t, "PING"))
			}
		}
	}
	require.Equal(t, []any{}, friend.do(t, "RL.INSPECT", "k"))
	// Before a login a command of more than ten arguments or sixteen kilobytes is not even read.
	big := dial(t, p.addr)
	_, err := big.Write([]byte("*1000000\r\n"))
	require.NoError(t, err)
	reply, err := io.ReadAll(big)
	require.NoError(t, err)
	require.Equal(t, "-ERR Protocol error: unauthenticated multibulk length\r\n", string(reply))
	if !raceEnabled {
		require.Less(t, peakMB(t, p.Cmd.Process.Pid), 100)
	}
	p.stop(t)
}
