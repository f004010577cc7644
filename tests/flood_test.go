package tests

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// most is how many commands a flood has: the race detector makes each ten times as
// long.
func most(n int) int {
	if raceEnabled {
		return n / 20
	}
	return n
}

// flood sends a line so often, and counts how often want comes back, in a goroutine
// that ends with the connection.
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

// TestOnePipelineDoesNotStarveOthers has one client send a million decisions in one
// go. While they are answered, so are those of another one, soon.
func TestOnePipelineDoesNotStarveOthers(t *testing.T) {
	p := startProxy(t)
	other := dial(t, p.addr)
	times := most(1_000_000)
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
	require.Greater(t, len(waits), 20, "the other client waited for the million")
	slices.Sort(waits)
	t.Logf("%d decisions beside the flood, p50 %v, p99 %v, worst %v", len(waits), waits[len(waits)/2], waits[len(waits)*99/100], waits[len(waits)-1])
	require.Less(t, waits[len(waits)/2], 100*time.Millisecond)
	require.Less(t, waits[len(waits)-1], 5*time.Second)
	p.stop(t)
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

// TestStrangersFlood has many clients without a password send all they can. Each
// command is refused, one by one, memory stays small, and who has logged in is
// answered.
func TestStrangersFlood(t *testing.T) {
	p := startProxy(t, "--requirepass", "secret")
	friend := dial(t, p.addr)
	require.Equal(t, status("OK"), friend.do(t, "AUTH", "secret"))
	times := most(100_000)
	var all []chan error
	for range 10 {
		_, done := flood(dial(t, p.addr), "RL.SLIDE k 5 60", times, "-"+string(errAuth)+"\r\n")
		all = append(all, done)
		_, done = flood(dial(t, p.addr), "AUTH guess", times, "-"+string(errLogin)+"\r\n")
		all = append(all, done)
	}
	for _, done := range all {
		for waiting := true; waiting; {
			select {
			case err := <-done:
				require.NoError(t, err)
				waiting = false
			default:
				require.Equal(t, status("PONG"), friend.do(t, "PING"))
			}
		}
	}
	require.Equal(t, []any{}, friend.do(t, "RL.INSPECT", "k"))
	// Nothing of ten arguments or sixteen kilobytes is even read before a login.
	big := dial(t, p.addr)
	_, err := big.Write([]byte("*1000000\r\n"))
	require.NoError(t, err)
	reply, err := io.ReadAll(big)
	require.NoError(t, err)
	require.Equal(t, "-ERR Protocol error: unauthenticated multibulk length\r\n", string(reply))
	if !raceEnabled {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(p.Cmd.Process.Pid) + "/status")
		require.NoError(t, err)
		peak, err := strconv.Atoi(highWater.FindStringSubmatch(string(b))[1])
		require.NoError(t, err)
		require.Less(t, peak, 100<<10, "kB of memory")
	}
	p.stop(t)
}
