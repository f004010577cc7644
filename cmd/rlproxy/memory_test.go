package main

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/cmd/rlproxy/config"
)

const (
	mb = 1 << 20
	gb = 1 << 30
)

func TestBoundsFollowFromTheMemory(t *testing.T) {
	const rest = ownMemory + 10_000*plainMemory
	for _, c := range []struct {
		container, machine, env int64
		share, goLimit          int64
	}{
		{512 * mb, 64 * gb, math.MaxInt64, 128 * mb, 256*mb + rest},      // a sidecar
		{128 * mb, 64 * gb, math.MaxInt64, 32 * mb, 128 * mb / 10 * 9},   // a small sidecar
		{8 * gb, 64 * gb, math.MaxInt64, 2 * gb, 4*gb + rest},            // a large container
		{0, 64 * gb, math.MaxInt64, gb, 2*gb + rest},                     // a large machine
		{0, gb, math.MaxInt64, 64 * mb, 128*mb + rest},                   // a small machine
		{64 * gb, gb, math.MaxInt64, 64 * mb, 128*mb + rest},             // a limit above the machine's memory is none
		{0, 0, math.MaxInt64, gb, 2*gb + rest},                           // not Linux
		{32 * mb, 64 * gb, math.MaxInt64, leastMemory, 32 * mb / 10 * 9}, // too little
		{4 * gb, 64 * gb, 400 * mb, 100 * mb, 200*mb + rest},             // GOMEMLIMIT says less
		{512 * mb, 64 * gb, 100 * gb, 128 * mb, 256*mb + rest},           // GOMEMLIMIT says more
	} {
		s := newSpace(c.container, c.machine, c.env)
		require.Equal(t, c.share, s.share(), "%+v", c)
		require.InDelta(t, c.goLimit, s.goLimit(&config.Config{MaxMemory: s.share(), ClientMemory: s.share(), MaxClients: 10_000}), 10, "%+v", c)
	}
	require.EqualValues(t, math.MaxInt64, space{}.goLimit(&config.Config{MaxMemory: math.MaxInt64, ClientMemory: math.MaxInt64}))
}

func TestMemoryIsReturnedAfterALoadAndNotDuringIt(t *testing.T) {
	var r returner
	require.True(t, r.due(20*mb, mb/2), "the start of the process")
	r.kept = 20 * mb
	for second := range uint64(5) {
		require.False(t, r.due((second+1)*100*mb, (second+1)*300*mb), "loaded")
	}
	require.True(t, r.due(500*mb, 1500*mb+mb), "idle")
	r.kept = 30 * mb
	require.False(t, r.due(30*mb, 1500*mb+2*mb), "returned")
	require.False(t, r.due(40*mb, 1500*mb+2*mb), "a little more")
	resident, allocated := memoryUse()
	require.Positive(t, resident)
	require.Positive(t, allocated)
}
