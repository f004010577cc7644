package tests

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// aroundBoundaryCases has the commands that are called 100 times around a boundary, and how
// many of the calls each admits.
var aroundBoundaryCases = []struct {
	command string
	options []any
	admits  int64
}{
	{"RL.SLIDE", nil, 50},
	{"RL.COUNTER", []any{"STRICT"}, 50},
	{"RL.COUNTER", []any{"BUCKETS", 10, "STRICT"}, 50},
	{"RL.FIXED", nil, 100},
}

// TestOnlyFixedWindowsAdmitTwiceTheLimitAroundABoundary makes 50 calls on either side of a
// window's boundary, with a limit of 50. A fixed window admits all of them.
func TestOnlyFixedWindowsAdmitTwiceTheLimitAroundABoundary(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for range 20 {
			if admitted, ok := aroundBoundary(t, c); ok {
				for i, b := range aroundBoundaryCases {
					require.Equal(t, b.admits, admitted[i], "%s %v", b.command, b.options)
				}
				return
			}
		}
		require.Fail(t, "the machine is too busy to send 400 calls within 600 ms")
	})
}

// aroundBoundary counts what each command admits of 50 calls just before and 50 calls just
// after a boundary. ok is false if the machine was too busy to send them in time.
func aroundBoundary(t *testing.T, c *conn) (admitted []int64, ok bool) {
	t.Helper()
	const (
		window = 2000 // ms
		near   = 300 * time.Millisecond
	)
	var pipeline [][]any
	for i, b := range aroundBoundaryCases {
		c.do(t, "RL.RESET", i)
		for range 50 {
			pipeline = append(pipeline, append([]any{b.command, i, 50, strconv.Itoa(window) + "ms"}, b.options...))
		}
	}
	boundary := time.UnixMilli((serverTime(t, c).UnixMilli()/window + 1) * window)
	waitUntil(t, c, boundary.Add(-near))
	before := c.pipeline(t, pipeline...)
	ok = serverTime(t, c).Before(boundary)
	waitUntil(t, c, boundary)
	after := c.pipeline(t, pipeline...)
	ok = ok && serverTime(t, c).Before(boundary.Add(near))
	for i := range aroundBoundaryCases {
		half := 50 * i
		admitted = append(admitted, countAllowed(t, before[half:half+50])+countAllowed(t, after[half:half+50]))
	}
	return admitted, ok
}

// serverTime returns the proxy's time. Its nodes share the clock of this machine.
func serverTime(t *testing.T, c *conn) time.Time {
	t.Helper()
	reply, ok := c.do(t, "TIME").([]any)
	require.True(t, ok)
	sec, err := strconv.ParseInt(reply[0].(string), 10, 64)
	require.NoError(t, err)
	usec, err := strconv.ParseInt(reply[1].(string), 10, 64)
	require.NoError(t, err)
	return time.Unix(sec, usec*1000)
}

// waitUntil waits until the proxy's time is then or later.
func waitUntil(t *testing.T, c *conn, then time.Time) {
	t.Helper()
	eventually(t, then.Format("15:04:05.000"), func() bool { return !serverTime(t, c).Before(then) })
}

// countAllowed returns how many of the replies are admissions.
func countAllowed(t *testing.T, replies []any) (n int64) {
	t.Helper()
	for _, r := range replies {
		d, err := toDecision(r)
		require.NoError(t, err)
		n += d.allowed
	}
	return n
}
