package ratelimit

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func TestWindowsAreParsedToMilliseconds(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1000, "60": 60_000, "60s": 60_000, "1m": 60_000, "250ms": 250, "2h": 7_200_000, "366d": limit.MaxWindow,
	} {
		ms, ok := window([]byte(text))
		require.True(t, ok, text)
		require.Equal(t, want, ms, text)
	}
	for _, text := range []string{"", "0", "-1", "01", "1M", "1 s", "s", "367d", "9223372036854775808"} {
		_, ok := window([]byte(text))
		require.False(t, ok, text)
	}
}
