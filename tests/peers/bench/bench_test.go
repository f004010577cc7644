package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/tests/peers"
)

func TestMain(m *testing.M) {
	os.Exit(build(m))
}

func build(m *testing.M) int {
	folder, err := os.MkdirTemp("", "peers")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }() // the system's own cleaning comes after us
	peers.Binary = filepath.Join(folder, "rlproxy")
	if err := proxytest.BuildStatic(peers.Binary, "../../../cmd/rlproxy"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestThePageComesFromARun measures, shortly, what needs nothing to be installed.
func TestThePageComesFromARun(t *testing.T) {
	patience, serverKeys = time.Second, keyCounts{1<<14 - 1<<9, 1 << 6}
	rows := []*row{{name: "rlproxy"}, {name: "rlproxy embedded"}, {name: "sorted-set script"}}
	require.NoError(t, measure(t.Context(), rows, 50*time.Millisecond, 1))
	ours, embedded, script := rows[0], rows[1], rows[2]
	for _, r := range rows {
		require.Positive(t, r.single.rate, r.name)
		require.Positive(t, r.deep.rate, r.name)
		require.Positive(t, r.single.all(), r.name)
		require.Positive(t, r.first, r.name)
	}
	for _, r := range []*row{ours, embedded} {
		require.LessOrEqual(t, r.worst, 1.0, r.name)
		require.Greater(t, r.worst, 0.5, "%s was not asked enough to tell", r.name)
	}
	require.Greater(t, script.full, script.first+limit*10, "a member for each unit takes memory")
	require.Equal(t, "denies, by its FAIL policy", ours.hangs.answer)
	require.Equal(t, "denies, by its FAIL policy", ours.gone.answer)
	require.Equal(t, "nothing", script.hangs.answer)
	require.False(t, embedded.hangs.known)

	p, err := newPage(t.Context(), rows, time.Second, 1)
	require.NoError(t, err)
	require.Contains(t, p.text(), "| sorted-set script | sliding log |")
	require.Contains(t, p.tables(), "rlproxy embedded")
}

// TestThePageSaysWherePeersAreAhead holds that a figure counts as better in the right
// direction, and that the page says why.
func TestThePageSaysWherePeersAreAhead(t *testing.T) {
	t.Parallel()
	fast := sample{Report: peers.Report{Decisions: 1000, Seconds: 0.01, P50: time.Millisecond, P99: time.Millisecond, Client: time.Second}, rate: 100_000}
	slow := fast
	slow.rate, slow.P50 = 50_000, 2*time.Millisecond
	known := stopped{known: true, answer: "error"}
	rows := []*row{
		{name: "rlproxy", single: slow, first: 200, full: 300, hangs: known},
		{name: "rlproxy embedded", single: slow, first: 200, full: 300},
		{name: "redis_rate", single: fast, first: 100, full: 400, hangs: known},
		{name: "throttlecrab", single: slow, first: 300, full: 300},
	}
	p, err := newPage(t.Context(), rows, time.Second, 1)
	require.NoError(t, err)
	text := p.text()
	require.Contains(t, text, "- **redis_rate**, beside rlproxy on Redis in brackets: decisions/s 100,000 (50,000), p50 us 1,000 (2,000), bytes a key 100 (200). Its caller asks Redis itself")
	require.Contains(t, text, "- **throttlecrab** is ahead of rlproxy embedded in nothing that this page measures.")
	require.Regexp(t, `\| redis_rate \| [0-9]+\.[0-9]+\.[0-9]+ \|`, text)
}
