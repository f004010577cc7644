package main

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpread(t *testing.T) {
	require.Equal(t, spread{1, 2, 9}, spreadOf([]float64{9, 1, 2}))
	require.Equal(t, spread{1, 2.5, 9}, spreadOf([]float64{9, 3, 1, 2}))
	require.Equal(t, "1.50 (0.120 to 1234)", spread{0.12, 1.5, 1234}.String())
}

func TestParseOfRedisBenchmark(t *testing.T) {
	var s sample
	require.NoError(t, s.parse("WARNING: no CONFIG\n"+
		`"test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"`+"\n"+
		`"RL.SLIDE k:__rand_int__ 100 60","1234.50","0.3","0.1","0.250","0.4","0.700","2.0"`+"\n"))
	require.Equal(t, sample{rate: 1234.5, p50: 250, p99: 700}, s)
	require.Error(t, s.parse("Error from server: NOSCRIPT"))
	require.Error(t, s.parse(`"test","rps"`+"\n"))
	require.Error(t, s.parse(`"test","rps"`+"\n"+`"PING","1"`+"\n"))
}

func TestEncode(t *testing.T) {
	require.Equal(t, "*2\r\n$4\r\nINCR\r\n$14\r\nk:000000000042\r\n", string(encode(nil, []string{"INCR", manyKeys}, 42)))
}

func TestReadReply(t *testing.T) {
	r := bufio.NewReader(strings.NewReader("+PONG\r\n*2\r\n:1\r\n$2\r\nab\r\n-ERR no\r\n"))
	for _, want := range []string{"PONG", "1 ab"} {
		reply, err := readReply(r)
		require.NoError(t, err)
		require.Equal(t, want, reply)
	}
	_, err := readReply(r)
	require.EqualError(t, err, "ERR no")
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
	g := grown{samples: []sample{{rate: 100, node: 10}, {rate: 80, node: 15}, {rate: 90, node: 12}}}
	require.InDelta(t, 1.5, g.worst(), 1e-9)
}
