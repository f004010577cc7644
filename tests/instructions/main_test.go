package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/stretchr/testify/require"
)

func TestReadBaseline(t *testing.T) {
	file := filepath.Join(t.TempDir(), "baseline")
	read := func(text string) (map[string]float64, error) {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		return readBaseline(file)
	}
	baseline, err := read("RL.SLIDE 2 windows/P16 1.27\nCL.THROTTLE/P1 2\n")
	require.NoError(t, err)
	require.Equal(t, map[string]float64{"RL.SLIDE 2 windows/P16": 1.27, "CL.THROTTLE/P1": 2}, baseline)
	for _, bad := range []string{"RL.SLIDE\n", "RL.SLIDE/P16 much\n", "\n"} {
		_, err := read(bad)
		require.Error(t, err, bad)
	}
}

// Each case has a line in the baseline, and no line is of another case.
func TestTheBaselineHasAllCases(t *testing.T) {
	baseline, err := readBaseline("baseline.txt")
	require.NoError(t, err)
	for _, c := range cases(new(testbed.Testbed)) {
		require.Contains(t, baseline, c.label())
		delete(baseline, c.label())
	}
	require.Empty(t, baseline)
}

func TestRequestsDiffer(t *testing.T) {
	words := []string{"RL.SLIDE", key, "ONCE", unique, "COST", costs}
	require.Equal(t, []string{"RL.SLIDE", key, "ONCE", "id3", "COST", "1"}, fill(words, 3, 4))
	require.Equal(t, []string{"RL.SLIDE", key, "ONCE", "id4", "COST", "2"}, fill(words, 4, 4))
	require.Equal(t, unique, words[3], "the words of the case stay")
}
