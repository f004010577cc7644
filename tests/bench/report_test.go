package main

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/tests/testbed"
	"github.com/rlproxy/rlproxy/tests/traffic"
	"github.com/stretchr/testify/require"
)

// measured returns a case of the table of decisions as if it had been measured.
func measured(title string, depth int, direct, proxied sample) result {
	side := load{target: target{fronts: []*testbed.Server{{}}}, script: "log", depth: depth}
	return result{
		comparison: comparison{decisions, title, []load{side}, side, []*figure{byRate, byNodeCPU}, nil},
		a:          side, as: direct, bs: proxied,
		values: []spread{{1.5, 1.75, 2}, {1.9, 2, 2.1}},
	}
}

func TestPageHasEveryCaseInItsTable(t *testing.T) {
	r := report{options: options{rounds: 5, seconds: 2}, rows: []result{
		measured("RL.SLIDE, cold & warm", 16, sample{Figures: traffic.Figures{Rate: 50_000}, node: 20}, sample{Figures: traffic.Figures{Rate: 87_500}, node: 10, proxy: 4, calls: 0.0625}),
	}}
	require.Contains(t, r.page(), "| RL.SLIDE, cold & warm | 16 | log.lua | 50,000 | 87,500 | 1.75 (1.50 to 2.00) | 20.0 | 10.0 | 2.00 (1.90 to 2.10) | 4.00 | 6.25 |")
	require.NotContains(t, r.page(), "What a Redis core carries", "of cases that were not measured")
}

func TestPageBeginsWithFiveLines(t *testing.T) {
	slower := measured("RL.SLIDE, cold keys", 1, sample{node: 20}, sample{node: 8, proxy: 14})
	slower.values = []spread{{0.7, 0.8, 1.1}, {1, 1, 1}}
	skewed := measured("RL.SLIDE, skewed keys", 16, sample{}, sample{})
	skewed.table, skewed.values = everyday, []spread{{0.7, 0.9, 1.1}, {1, 1, 1}}
	incr := measured("RL.SLIDE, embedded engine, against INCR", 16, sample{}, sample{}) // no script, so it does not count
	incr.a.script, incr.a.command, incr.values = "", []string{"INCR", manyKeys}, []spread{{0.5, 0.5, 0.5}}
	fleet := slower
	fleet.table = fleets
	r := report{rows: []result{
		slower, skewed, incr, fleet,
		measured("RL.SLIDE, cold keys", 64, sample{node: 10}, sample{node: 5, proxy: 1}),
		measured("RL.SLIDE, one hot key with room", 64, sample{node: 12.5}, sample{node: 0.1, proxy: 0.8}),
		{comparison: comparison{table: latency}, a: load{send: waiting}, as: sample{Figures: traffic.Figures{P50: 47}}, bs: sample{Figures: traffic.Figures{P50: 88.7}}, values: []spread{{}, {}}},
	}, sizes: []size{{kind: kind{title: "RL.SLIDE"}, direct: 310, onNode: 209}}}
	before, _, found := strings.Cut(r.page(), "![")
	require.True(t, found, "a picture")
	require.Equal(t, 5, strings.Count(before, "\n- **"))
	words := strings.Join(strings.Fields(before), " ")
	for _, said := range []string{"100,000 decisions a second with the script and 200,000 through rlproxy", "80,000 and 10,000,000",
		"a lone client waits 88.7 us for an answer, and 47.0 us with the script", "20.0 us with the script and 22.0 us through rlproxy for one request at a time, 10.0 us and 6.00 us for 64",
		"310 bytes of Redis with the script and 209 through rlproxy", "Of the 4 cases under Decisions and Everyday loads", "in 2, 1 of them with one request at a time. All processes share these cores. Under Fleets, it does so in 1 of 1."} {
		require.Contains(t, words, said)
	}
}

func TestTablesHaveWhatOpenLoopsAndMemoryCameTo(t *testing.T) {
	side := load{script: "list", rate: 10_000, send: paced}
	r := report{rows: []result{{
		comparison: comparison{openLoops, "one stops", []load{side}, side, nil, nil}, a: side,
		as: sample{Figures: traffic.Figures{P50: 80, P99: 1_234_000, P999: 1_490_000, Max: 1_500_000, Late: 40}}, bs: sample{Figures: traffic.Figures{P50: 160, P99: 101_000, P999: 120_000, Max: 130_000, Late: 55.5, Failed: 16.7}},
		values: []spread{{1, 2, 3}, {0.05, 0.06, 0.07}, {0.1, 0.2, 0.3}},
	}}, sizes: []size{
		{kind{"RL.FIXED", nil, load{keys: 1_000_000}, 1}, "fixed", 90.4, 177.2, 181},
		{kind{"RL.ACQUIRE, one lease", nil, load{keys: 1_000_000}, 1}, "", 0, 300, 1000},
	}}
	text := r.tables()
	for _, said := range []string{
		"| one stops | 10,000 | list.lua | 80.0 | 1,234,000 | 1,490,000 | 1,500,000 | 160 | 101,000 | 120,000 | 130,000 | 2.00 (1.00 to 3.00) | 0.0600 (0.0500 to 0.0700) | 0.200 (0.100 to 0.300) | 16.7 |",
		"The load generator sent 99 % of the requests at most 55.5 us late",
		"| RL.FIXED | 1,000,000 | fixed.lua | 90 | 177 | 181 |",
		"| RL.ACQUIRE, one lease | 1,000,000 |  |  | 300 | 1,000 |",
	} {
		require.Contains(t, text, said)
	}
	for _, table := range []string{decisions, fleets, latency, splitting} {
		require.NotContains(t, text, "## "+table, "of which nothing was measured")
	}
}

// The picture is well-formed, and has the two sides of each case whose node's CPU time is known.
func TestPlotHasBothSidesOfEachCase(t *testing.T) {
	r := report{rows: []result{
		measured("RL.SLIDE, cold & warm", 16, sample{node: 20}, sample{node: 10}),
		measured("RL.SLIDE, embedded engine, cold keys", 16, sample{node: 20}, sample{}),
		measured("RL.COUNTER, cold keys", 1, sample{node: 20}, sample{node: 25}),
		measured("RL.COUNTER, cold keys", 64, sample{node: 20}, sample{node: 25}), // not drawn: one and 16 at a time are
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

// A reader sees how near keys are to their limits.
func TestEverydayTableHasDenials(t *testing.T) {
	near := measured("RL.SLIDE, 500 keys near 490 in 10 s", 1, sample{denied: 24.96}, sample{denied: 3})
	near.table = everyday
	text := (&report{rows: []result{near}}).tables()
	require.Contains(t, text, "| direct: denied, % | rlproxy: denied, % |")
	require.Contains(t, text, "| 25.0 | 3.0 |")
	near.table = decisions
	require.NotContains(t, (&report{rows: []result{near}}).tables(), "denied, %")
}

// A step that costs more than twice the step before it stands out.
func TestLargeStepsAreBold(t *testing.T) {
	require.Equal(t, "2.00", growthOf(20, 10))
	require.Equal(t, "**2.10**", growthOf(21, 10))
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

func TestASplitPaysWhereItsAnswersComeSooner(t *testing.T) {
	whole := sample{node: 2, calls: 0.1} // 20 us a call
	require.InDelta(t, 50_000, whole.carried(), 1e-6)
	require.InDelta(t, 50_000.0*(2-1)/(2-0.5), crossing(whole, sample{node: 4, busiest: 1}), 1e-6)
	require.InDelta(t, 50_000, crossing(whole, sample{node: 4, busiest: 3}), 1e-6, "a full node is no fuller")
	require.Zero(t, crossing(whole, sample{node: 1.9, busiest: 1}), "it always pays")
}
