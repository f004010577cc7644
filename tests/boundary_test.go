package tests

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// besides are what 100 calls around a boundary are asked by, and how many of them
// each admits.
var besides = []struct {
	command string
	options []any
	admits  int64
}{
	{"RL.SLIDE", nil, 50},
	{"RL.COUNTER", []any{"STRICT"}, 50},
	{"RL.COUNTER", []any{"BUCKETS", 10, "STRICT"}, 50},
	{"RL.FIXED", nil, 100},
}

// TestBoundary is the demonstration people know: limit 50, and 50 calls on either
// side of a window's boundary. A fixed window admits all of them.
func TestBoundary(t *testing.T) {
	eachEngine(t, func(t *testing.T, p *proxy) {
		c := dial(t, p.addr)
		for range 20 {
			if admitted, ok := aroundBoundary(t, c); ok {
				for i, b := range besides {
					require.Equal(t, b.admits, admitted[i], "%s %v", b.command, b.options)
				}
				return
			}
		}
		require.Fail(t, "the machine is too busy to send twice 200 calls within 600 ms")
	})
}

// aroundBoundary counts what each command admits of twice 50 calls, just before
// and just after a boundary. False: this machine was too busy to send them then.
func aroundBoundary(t *testing.T, c *conn) (admitted []int64, ok bool) {
	t.Helper()
	const (
		window = 2000 // ms
		near   = 300 * time.Millisecond
	)
	var pipeline [][]any
	for i, b := range besides {
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
	for i := range besides {
		half := 50 * i
		admitted = append(admitted, countAllowed(t, before[half:half+50])+countAllowed(t, after[half:half+50]))
	}
	return admitted, ok
}

// serverTime asks for the clock that the proxy and its nodes share on this machine.
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

// waitUntil asks for the time until it has come.
func waitUntil(t *testing.T, c *conn, then time.Time) {
	t.Helper()
	eventually(t, "a moment", func() bool { return !serverTime(t, c).Before(then) })
}

func countAllowed(t *testing.T, replies []any) (n int64) {
	t.Helper()
	for _, r := range replies {
		d, err := toDecision(r)
		require.NoError(t, err)
		n += d.allowed
	}
	return n
}
