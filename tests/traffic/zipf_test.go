package traffic

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of three ranks the shares are 6/11, 3/11 and 2/11 for s = 1.
func TestZipfDrawsRanksInProportion(t *testing.T) {
	z := NewZipf(3, 1)
	require.InDeltaSlice(t, []float64{6. / 11, 9. / 11, 1}, []float64(z), 1e-12)
	for _, c := range []struct {
		u    float64
		rank int
	}{{0, 0}, {0.54, 0}, {z[0], 1}, {0.8, 1}, {z[1], 2}, {0.999999, 2}} {
		require.Equal(t, c.rank, z.rank(c.u), c.u)
	}

	z = NewZipf(1_000_000, 1)
	random := rand.New(rand.NewPCG(1, 2))
	const draws = 1_000_000
	drawn := map[int]int{}
	for range draws {
		drawn[z.rank(random.Float64())]++
	}
	for _, rank := range []int{1, 2, 10, 100} {
		share := float64(drawn[rank-1]) / draws
		require.InEpsilon(t, 1/14.3927/float64(rank), share, 0.2, "of rank %d, by the sum of 1/n up to a million, 14.3927", rank)
	}
}

// Equal distributions are the case s = 0.
func TestZipfOfZeroIsUniform(t *testing.T) {
	require.InDeltaSlice(t, []float64{0.25, 0.5, 0.75, 1}, []float64(NewZipf(4, 0)), 1e-12)
}
