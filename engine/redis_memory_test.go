package engine

import (
	"context"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A key that admitted 1,000,000 units within 60 s, something in every ms, is one log
// of 60,000 entries: its memory follows the ms, not the units.
func TestFullLogIsSmall(t *testing.T) {
	s := redistest.Start(t)
	began := time.Now().Add(100 * 365 * 24 * time.Hour).UnixMilli()
	now := began
	e := openTestRedis(t, func() int64 { return now }, s)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	const limit, window = 1_000_000, 60_000
	admitted := int64(0)
	for ; now < began+window; now++ {
		cost := limit*(now-began+1)/window - admitted
		require.True(t, one(e, slide("tenant:0000000042", limit, window, cost)).Allowed)
		admitted += cost
	}
	require.EqualValues(t, limit, admitted)
	require.False(t, one(e, slide("tenant:0000000042", limit, window, 1)).Allowed)
	bytes := s.Client.MemoryUsage(context.Background(), "rl:{tenant:0000000042}").Val()
	t.Logf("%d bytes", bytes)
	require.Positive(t, bytes)
	require.LessOrEqual(t, bytes, int64(1_500_000))
}
