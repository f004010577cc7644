package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// measured returns a case of the table of decisions as if it had been measured.
func measured(title string, depth int, direct, proxied sample) result {
	side := load{target: target{front: &server{}}, depth: depth}
	return result{
		comparison: comparison{decisions, title, side, side, []*figure{byRate, byNodeCPU}},
		as:         direct, bs: proxied,
		values: []spread{{1.5, 1.75, 2}, {1.9, 2, 2.1}},
	}
}

func TestPageHasEveryCaseInItsTable(t *testing.T) {
	r := report{options: options{rounds: 5, seconds: 2}, rows: []result{
		measured("RL.SLIDE, cold & warm", 16, sample{rate: 50_000, node: 20}, sample{rate: 87_500, node: 10, proxy: 4}),
	}}
	require.Contains(t, r.page(), "| RL.SLIDE, cold & warm | 16 | 50,000 | 87,500 | 1.75 (1.50 to 2.00) | 20.0 | 10.0 | 2.00 (1.90 to 2.10) | 4.00 |")
	require.NotContains(t, r.page(), "What a Redis core carries", "of cases that were not measured")
}

func TestPageBeginsWithFiveLines(t *testing.T) {
	r := report{rows: []result{
		measured("RL.SLIDE, cold keys", 1, sample{node: 20}, sample{node: 8, proxy: 14}),
		measured("RL.SLIDE, cold keys", 64, sample{node: 10}, sample{node: 5, proxy: 1}),
		measured("RL.SLIDE, one hot key with room", 64, sample{node: 12.5}, sample{node: 0.1, proxy: 0.8}),
		{comparison: comparison{table: latency, a: load{loop: true}}, as: sample{p50: 47}, bs: sample{p50: 88.7}, values: []spread{{}, {}}},
	}}
	before, _, found := strings.Cut(r.page(), "![")
	require.True(t, found, "a picture")
	require.Equal(t, 5, strings.Count(before, "\n- **"))
	for _, said := range []string{"100,000 decisions a second with the script and 200,000 through rlproxy", "80,000 and 10,000,000",
		"a lone client waits 88.7 us for an answer instead of 47.0 us", "takes 22.0 us of CPU"} {
		require.Contains(t, before, said)
	}
}

// The picture is well-formed, and has the two sides of each case whose node's CPU time is known.
func TestPlotHasBothSidesOfEachCase(t *testing.T) {
	r := report{rows: []result{
		measured("RL.SLIDE, cold & warm", 16, sample{node: 20}, sample{node: 10}),
		measured("RL.SLIDE, embedded engine, cold keys", 16, sample{node: 20}, sample{}),
		measured("RL.COUNTER, cold keys", 1, sample{node: 20}, sample{node: 25}),
	}}
	drawn := map[string]int{}
	for dec := xml.NewDecoder(strings.NewReader(r.plot())); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e, ok := token.(xml.StartElement); ok {
			for _, a := range e.Attr {
				if a.Name.Local == "class" {
					drawn[a.Value]++
				}
			}
		}
	}
	require.Equal(t, 1+2, drawn["direct"], "one in the legend and one a case")
	require.Equal(t, 1+2, drawn["rlproxy"])
	require.Equal(t, 2, drawn["group"])
	require.Equal(t, 1, drawn["gain"])
	require.Equal(t, 1, drawn["loss"])
}

func TestNumbersAreShort(t *testing.T) {
	require.Equal(t, "89,300", rounded(89286))
	require.Equal(t, "9,520,000", rounded(9523809))
	require.Equal(t, "41", rounded(41.2))
	require.Equal(t, "89.3 k", abbreviated(89286))
	require.Equal(t, "9.52 M", abbreviated(9523809))
	require.Equal(t, "1 G", abbreviated(1e9))
	require.Equal(t, "41.2", abbreviated(41.2))
}
