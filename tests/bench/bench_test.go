package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	require.Equal(t, spread{1, 2, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, spread{1, 2.5, 9}, spreadOf([]float64{9, 3, 1, 2}))
	require.Equal(t, "1.50 (0.120 to 1234)", spread{0.12, 1.5, 1234}.String())
}

func TestReadBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "baseline")
	read := func(text string) (map[string]float64, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return readBaseline(file)
	}
	old, err := read("RL.SLIDE 2 windows/P16 1.27\nCL.THROTTLE/P1 2\n")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"RL.SLIDE 2 windows/P16": 1.27, "CL.THROTTLE/P1": 2}, old)
	for _, bad := range []string{"RL.SLIDE\n", "RL.SLIDE/P16 much\n", "\n"} {
		_, err := read(bad)
		require.Error(t, err, bad)
	}
}

// Every case that is counted has a baseline, and the other way about.
func TestBaselineIsWhole(t *testing.T) {
	old, err := readBaseline("instructions.txt")
	require.NoError(t, err)
	for _, c := range countedCases(&lab{}) {
		require.Contains(t, old, c.label())
		delete(old, c.label())
	}
	require.Empty(t, old)
}

func TestGrowthCountsTimeAndCPU(t *testing.T) {
	g := grown{samples: []sample{rated(100, 10), rated(80, 15), rated(90, 12)}}
	require.InDelta(t, 1.5, g.worst(), 1e-9)
}

func rated(rate, node float64) sample {
	return sample{Figures: traffic.Figures{Rate: rate}, node: node}
}
