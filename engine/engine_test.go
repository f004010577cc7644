package engine

import (
	"runtime"
	"testing"
	"weak"

	"github.com/stretchr/testify/require"
)

// Composed keys stay valid until Reset, however many follow, and cannot grow into each other.
func TestRoomHoldsUntilReset(t *testing.T) {
	var p Pipeline
	fill := func() {
		var keys [][]byte
		for i := range 500 {
			n := 1 + i*7%200
			room := p.Room(n)
			require.Empty(t, room)
			require.Equal(t, n, cap(room))
			for range n {
				room = append(room, byte(i))
			}
			keys = append(keys, room)
		}
		for i, key := range keys {
			for _, b := range key {
				require.EqualValues(t, i%256, b)
			}
		}
		p.Reset()
	}
	fill()
	fill()
	fill()
	require.Zero(t, testing.AllocsPerRun(10, func() {
		for range 500 {
			p.Room(100)
		}
		p.Reset()
	}))
	require.Len(t, p.Room(5000)[:5000], 5000)
}

// Requests that are dropped, because they were answered or refused, keep no memory: their keys are part of a connection's
// buffer, of up to client-query-buffer-limit bytes, and sessions reuse pipelines of each other.
func TestDroppedRequestsKeepNoBuffer(t *testing.T) {
	var p Pipeline
	for name, drop := range map[string]func(){"Reset": p.Reset, "Truncate": func() { p.Truncate(0) }} {
		buffer := make([]byte, 1<<20)
		alive := weak.Make(&buffer[0])
		for i := range 10 {
			p.Add().Key = buffer[i : i+1]
		}
		drop()
		runtime.GC()
		require.Nil(t, alive.Value(), name)
		require.Equal(t, Request{}, *p.Add(), name)
		p.Reset()
	}
}
