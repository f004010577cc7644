package forward

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

func TestTrafficCountsCommands(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	f := open(t, func(c *Config) { c.Timeout = time.Second }, s)
	forwardAll(t, f, 2, "SET a x", "INCR a") // an error reply is a reply
	forwardAll(t, f, 3, "GET a")
	got := f.Traffic()
	require.Len(t, got, 1)
	require.Equal(t, s.Addr, got[0].Node)
	require.EqualValues(t, 3, got[0].Commands)
	require.Zero(t, got[0].Failed)
	require.Zero(t, got[0].Waiting)
	require.EqualValues(t, 2, got[0].RoundTrips.Count)
	require.Positive(t, got[0].RoundTrips.Sum)
	s.Pause()
	forwardAll(t, f, 2, "GET a")
	s.Resume()
	got = f.Traffic()
	require.EqualValues(t, 4, got[0].Commands)
	require.EqualValues(t, 1, got[0].Failed)
}
