package web

import (
	"fmt"
	"hash/maphash"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/engine/observe"
)

// A key's trail has its tallies of the last five minutes, and has a gap where the key was not busy.
func TestTrailsKeepFiveMinutes(t *testing.T) {
	t.Parallel()
	tr := trails{seed: maphash.MakeSeed()}
	for i := range int64(3 * maxMoments) {
		keys := []observe.HotKey{{Key: []byte("k"), Rate: 1.6, Admitted: i, Denied: 2, Refused: 3, ByFail: 4, ShadowDenied: 5, Limit: 6, Remaining: 7}}
		if i%2 == 0 {
			keys = append(keys, observe.HotKey{Key: fmt.Append(nil, "new", i)})
		}
		tr.add(i, keys)
	}
	all := tr.of([]byte("k"))
	require.Len(t, all, maxMoments)
	require.Equal(t, tally{2 * maxMoments, 2, 2 * maxMoments, 2, 3, 4, 5, 6, 7}, all[0])
	require.EqualValues(t, 3*maxMoments-1, all[maxMoments-1].Time)
	require.Len(t, tr.of(fmt.Append(nil, "new", 3*maxMoments-2)), 1)
	require.Empty(t, tr.of([]byte("new0")), "it was long ago")
	require.Empty(t, tr.of([]byte("none")))
}
