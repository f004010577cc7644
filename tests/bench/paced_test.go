package main

import (
	"context"
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
	l := load{target: target{fronts: []*server{front}}, command: []string{"INCR", manyKeys}, keys: 10, clients: 4, depth: 1, send: paced, rate: 1000}
	var s sample
	require.NoError(t, l.drive(context.Background(), 500, &s))
	require.Equal(t, int64(500), read.Load())
	// Of the 400 requests after the first hundred, 300 came during the stop, one a ms.
	require.Greater(t, s.p50, 30_000.0, "us: more than half of all requests waited")
	require.Greater(t, s.p99, 250_000.0, "us: the first 50 of them waited for 250 ms and longer")
	require.GreaterOrEqual(t, s.p999, s.p99)
	require.GreaterOrEqual(t, s.max, s.p999)
}

// Nothing is ever answered, and all is sent.
func TestOpenLoopDoesNotWaitForAnswers(t *testing.T) {
	front, _ := answering(t, func() { select {} }, "")
	l := load{target: target{fronts: []*server{front}}}
	conns, err := l.dial(2)
	require.NoError(t, err)
	defer hangUp(conns)
	requests := make([][]byte, 2000)
	for i := range requests {
		requests[i] = encode(nil, []string{"INCR", manyKeys}, i)
	}
	late := make([]time.Duration, len(requests))
	began := time.Now()
	require.NoError(t, l.sendOnTime(context.Background(), schedule{began, 50 * time.Microsecond}, conns, requests, late))
	require.GreaterOrEqual(t, time.Since(began), 1999*50*time.Microsecond, "and nothing is sent before its time")
	for i := range late {
		require.Positive(t, late[i])
	}
}

func TestANodeThatStandsStillGoesOn(t *testing.T) {
	l := &lab{ctx: t.Context(), folder: t.TempDir(), shas: map[string]string{}}
	defer l.close()
	node, err := l.redis(nil)
	require.NoError(t, err)
	side := load{target: target{fronts: []*server{node}, nodes: []*server{node}}, command: []string{"INCR", manyKeys}, keys: 10, clients: 4, depth: 1,
		send: paced, rate: 1000, stopped: node}
	var s sample
	require.NoError(t, side.drive(context.Background(), 400, &s))
	require.Greater(t, s.p99, 150_000.0, "us: the node stands still for 200 ms")
	_, err = ask(node.port, "PING")
	require.NoError(t, err)
}
