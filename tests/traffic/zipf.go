package traffic

import (
	"math"
	"slices"
)

// Zipf is a Zipf distribution: element i is the probability of a rank of at most i, where
// ranks begin at 0 and rank i is drawn in proportion to 1/(i+1)^s.
type Zipf []float64

// NewZipf returns the distribution of so many ranks with the exponent s.
func NewZipf(ranks int, s float64) Zipf {
	z := make(Zipf, ranks)
	sum := 0.0
	for i := range z {
		sum += math.Pow(float64(i+1), -s)
		z[i] = sum
	}
	for i := range z {
		z[i] /= sum
	}
	return z
}

// rank returns the rank at a point u of the distribution, where 0 <= u < 1.
func (z Zipf) rank(u float64) int {
	i, found := slices.BinarySearch(z, u)
	if found {
		i++ // a rank's share ends before its own sum
	}
	return min(i, len(z)-1)
}
