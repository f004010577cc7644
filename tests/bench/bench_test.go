package main

import (
	"testing"

	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	require.Equal(t, spread{1, 2, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, spread{1, 2.5, 9}, spreadOf([]float64{9, 3, 1, 2}))
	require.Equal(t, "1.50 (0.120 to over 100)", spread{0.12, 1.5, 1234}.String())
}

func TestGrowthCountsTimeAndCPU(t *testing.T) {
	g := grown{samples: []sample{rated(100, 10), rated(80, 15), rated(90, 12)}}
	require.InDelta(t, 1.5, g.worst(), 1e-9)
}

func rated(rate, node float64) sample {
	return sample{Figures: traffic.Figures{Rate: rate}, node: node}
}
