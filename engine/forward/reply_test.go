package forward

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// A reply of 100 MB passes with one copy of it in memory. A reply that is larger than
// allowed becomes an error, and the connection remains usable.
func TestLargeRepliesAreBoundedAndCopiedOnce(t *testing.T) {
	const size = 100 << 20
	s := redistest.Start(t)
	reserved := int64(0)
	reserve := func(delta int64) bool { reserved += delta; return true }
	f := open(t, func(c *Config) { c.Reserve = reserve }, s)
	for _, proto := range []int{2, 3} {
		require.Equal(t, fmt.Sprintf(":%d\r\n", size), forwardAll(t, f, proto, fmt.Sprintf("SETRANGE big %d x", size-1))[0])
		var p Pipeline
		p.Add(commandLine(t, "GET big"), proto == 3)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f.Do(&p)
		runtime.ReadMemStats(&after)
		require.NoError(t, p.Results[0].Err)
		require.Len(t, p.Results[0].Raw, size+len("$104857600\r\n\r\n"))
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(size*11/10))
		require.Greater(t, reserved, int64(size-1))
		p.Reset()
		require.Zero(t, reserved)
	}

	small := open(t, func(c *Config) { c.ReplyLimit = 1 << 20 }, s)
	s.Client.SetRange(t.Context(), "half", 600<<10, "x")
	s.Client.RPush(t.Context(), "list", strings.Split(strings.Repeat("element ", 200_000), " "))
	got := forwardAll(t, small, 2, "GET big", "GET half", "GET half", "LRANGE list 0 -1", "EXISTS big")
	require.Equal(t, errNoRoom.Error(), got[0])
	require.Len(t, got[1], 600<<10+1+len("$614401\r\n\r\n"))
	require.Equal(t, errNoRoom.Error(), got[2])
	require.Equal(t, errNoRoom.Error(), got[3])
	require.Equal(t, ":1\r\n", got[4])
}
