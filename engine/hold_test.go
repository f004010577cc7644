package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A digest names one of 4,096 buckets by its first 2 bytes.
func TestDigestsNameABucket(t *testing.T) {
	seen := map[Digest]bool{}
	for i := range 1000 {
		for _, d := range []Digest{DigestOf([]byte{byte(i), byte(i >> 8)}), RandomDigest()} {
			require.Less(t, d[0], byte(16))
			seen[d] = true
		}
	}
	require.Len(t, seen, 2000)
}
