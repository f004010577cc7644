package traffic

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestScheduleIsDueWhenItsTimeHasCome(t *testing.T) {
	s := schedule{time.Unix(1000, 0), 100 * time.Microsecond}
	require.Equal(t, 0, s.due(s.began.Add(-1)))
	require.Equal(t, 1, s.due(s.began))
	require.Equal(t, 1, s.due(s.began.Add(99_999)))
	for _, i := range []int{0, 1, 9_999, 3_000_000} {
		require.Equal(t, i+1, s.due(s.at(i)), "request %d is due at its own time", i)
		require.Equal(t, i, s.due(s.at(i).Add(-1)), "and not before")
	}
	require.Equal(t, time.Second, s.at(10_000).Sub(s.began))
}

// A server that stands still delays every request that comes meanwhile. A generator that
// waited for answers would have one request on each connection then, and tell of 4 slow
// ones.
func TestOpenLoopChargesEveryRequestThatAStopDelays(t *testing.T) {
	const stop = 300 * time.Millisecond
	still := make(chan struct{}) // closed when the server goes on
	var asked atomic.Int64
	front, read := answering(t, func() {
		switch n := asked.Add(1); {
		case n == 100:
			time.AfterFunc(stop, func() { close(still) })
			fallthrough
		case n > 100:
			<-still
		}
	}, ":1\r\n")
	p := Plan{Servers: []string{front}, Commands: increments, Keys: 10, Clients: 4}
	f, err := p.Pace(t.Context(), 500, 1000, nil)
	require.NoError(t, err)
	require.Equal(t, int64(500), read.Load())
	// Of the 400 requests after the first hundred, 300 came during the stop, one a ms.
	require.Greater(t, f.P50, 30_000.0, "us: more than half of all requests waited")
	require.Greater(t, f.P99, 250_000.0, "us: the first 50 of them waited for 250 ms and longer")
	require.GreaterOrEqual(t, f.P999, f.P99)
	require.GreaterOrEqual(t, f.Max, f.P999)
}

// Nothing is ever answered, and all is sent.
func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	front, _ := answering(t, func() { select {} }, "")
	p := Plan{Servers: []string{front}, Clients: 2}
	conns, err := p.dial()
	require.NoError(t, err)
	defer hangUp(conns)
	requests := make([][]byte, 2000)
	for i := range requests {
		requests[i] = Encode(nil, increments[0], i)
	}
	late := make([]time.Duration, len(requests))
	began := time.Now()
	require.NoError(t, sendOnTime(t.Context(), schedule{began, 50 * time.Microsecond}, conns, requests, late, nil))
	require.GreaterOrEqual(t, time.Since(began), 1999*50*time.Microsecond, "and nothing is sent before its time")
	for i := range late {
		require.Positive(t, late[i])
	}
}

// A pause ends, even if the loop does not.
func TestOpenLoopPausesForTheMiddleHalf(t *testing.T) {
	front, read := answering(t, func() {}, ":1\r\n")
	p := Plan{Servers: []string{front}, Commands: increments, Keys: 10, Clients: 4}
	var events []string
	pause := &Pause{func() { events = append(events, "begin") }, func() { events = append(events, "end") }}
	_, err := p.Pace(t.Context(), 400, 4000, pause)
	require.NoError(t, err)
	require.EqualValues(t, 400, read.Load())
	require.Equal(t, []string{"begin", "end", "end"}, events, "the second end is for loops that fail")
}

// Near leaves the requests around the first that is denied.
func TestOpenLoopMeasuresNearALimit(t *testing.T) {
	p := Plan{Near: 30 * time.Millisecond}
	s := schedule{time.Now(), 10 * time.Millisecond}
	answers := make([]said, 100)
	from, to := p.measured(s, answers)
	require.Equal(t, []int{0, 100}, []int{from, to}, "all, if none is denied")
	answers[50].denied, answers[60].denied = true, true
	from, to = p.measured(s, answers)
	require.Equal(t, []int{47, 53}, []int{from, to})
	answers[1].denied = true
	from, to = p.measured(s, answers)
	require.Equal(t, []int{0, 4}, []int{from, to})
}
