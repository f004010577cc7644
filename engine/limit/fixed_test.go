package limit

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A window begins at a multiple of its length and forgets all at its end: 2 admitted a
// ms before and 2 at the boundary.
func TestFixedWindow(t *testing.T) {
	s, k := spec(Fixed, 2, 1000), key{}
	require.Equal(t, Decision{Allowed: true, Limit: 2, Remaining: 1, ResetAfter: 100}, k.one(s, 900))
	require.True(t, k.one(s, 999).Allowed)
	require.Equal(t, Decision{Limit: 2, RetryAfter: 1, ResetAfter: 1}, k.one(s, 999))
	require.EqualValues(t, testBase+999, k.state.Until())
	require.True(t, k.one(s, 1000).Allowed)
	require.True(t, k.one(s, 1500).Allowed)
	require.Equal(t, Decision{Limit: 2, RetryAfter: 400, ResetAfter: 400}, k.one(s, 1600))
}
