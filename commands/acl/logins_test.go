package acl

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDelayedAnswersAreBounded(t *testing.T) {
	t.Parallel()
	l := NewLogins(t.Context())
	for i := range 100 {
		require.Equal(t, i < maxDelayed, l.count(string(rune('a'+i)), 1))
	}
	require.Len(t, l.delayed, maxDelayed)
	for i := range maxDelayed {
		require.True(t, l.count(string(rune('a'+i)), -1))
	}
	require.Empty(t, l.delayed)
	require.Zero(t, l.total)
}
