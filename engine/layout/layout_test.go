package layout

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// The list of nodes is changed in twenty proxies, one after the other. A proxy that starts with the new list knows at
// once which keys are contested, and all proxies agree on them. In the end no key is contested.
func TestProxiesAgreeWhileTheListOfNodesChanges(t *testing.T) {
	var urls []string
	for range 3 {
		urls = append(urls, redistest.Start(t).URL())
	}
	log := slog.New(slog.DiscardHandler)
	fleet := make([]*Guard, 20)
	for i := range fleet {
		fleet[i] = Open(open(t, urls[:2]...), Strict, log)
	}
	contested := func(g *Guard) (keys string) {
		c := g.Conflict.Load()
		for i := range 200 {
			if c != nil && c.Contested(strconv.AppendInt(nil, int64(i), 10), 1) {
				keys += strconv.Itoa(i) + " "
			}
		}
		return keys
	}
	all := ""
	for i := range fleet {
		fleet[i].Close()
		fleet[i] = Open(open(t, urls...), Strict, log)
		switch keys := contested(fleet[i]); {
		case i == 0:
			all = keys
			require.NotEmpty(t, all)
		case i < len(fleet)-1:
			require.Equal(t, all, keys, "proxy %d", i)
		}
		if i == 0 || i == len(fleet)-1 {
			for _, g := range fleet {
				want := all
				if i > 0 {
					want = ""
				}
				proxytest.Eventually(t, "all proxies to agree", func() bool { return contested(g) == want })
			}
		}
	}
	for _, g := range fleet {
		g.Close()
	}
}

// Proxies without a common node do not find each other. Those with common nodes do, even if one of these nodes is away.
func TestProxiesFindEachOtherOnAnyNode(t *testing.T) {
	one, two, away := redistest.Start(t), redistest.Start(t), redistest.Start(t)
	away.Kill()
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	a := Open(open(t, away.URL(), one.URL()), Warn, logger)
	defer a.Close()
	b := Open(open(t, two.URL()), Warn, logger)
	defer b.Close()
	require.Nil(t, b.latest.Load().conflict)
	require.Empty(t, log.String())
	c := Open(open(t, away.URL(), one.URL(), two.URL()), Warn, logger)
	defer c.Close()
	require.Len(t, c.latest.Load().conflict.others, 2)
	require.Nil(t, c.Conflict.Load(), "the mode is not Strict")
	for _, g := range []*Guard{a, b} {
		proxytest.Eventually(t, "the others to find the conflict", func() bool { return g.latest.Load().conflict != nil })
	}
}

// Layouts of masters found through Sentinel are guarded. In a cluster nothing is stored, because the nodes themselves
// place the keys.
func TestSentinelsAreGuardedAndClustersAreNot(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	guarded := redistest.StartGuarded(t)
	g := Open(open(t, guarded.URL()), Warn, log)
	defer g.Close()
	other := redistest.Start(t)
	h := Open(open(t, guarded.URL(), other.URL()), Warn, log)
	defer h.Close()
	for _, g := range []*Guard{g, h} {
		proxytest.Eventually(t, "the other list to be seen", func() bool { return g.latest.Load().conflict != nil })
	}

	cluster := redistest.StartCluster(t, 3, nil)
	fleet := open(t, cluster.URL())
	proxytest.Eventually(t, "the cluster's nodes to be known", func() bool { return len(fleet.Topology().Nodes) == 3 })
	c := Open(fleet, Strict, log)
	defer c.Close()
	first := c.latest.Load()
	proxytest.Eventually(t, "another round", func() bool { return c.latest.Load() != first })
	require.Equal(t, "cluster", c.Stats()[1].Text)
	for _, n := range cluster.Nodes {
		require.Zero(t, n.Client.DBSize(t.Context()).Val())
	}
}

// A conflict is logged at once, then every minute, and once when it ends.
func TestConflictsAreLoggedEveryMinute(t *testing.T) {
	var log proxytest.LockedBuffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	r := newReport(logger)
	v := func(after time.Duration, records ...*contents) *survey {
		at := now.Add(after)
		own := list{"a/0", "b/0"}
		return &survey{own: own, mode: Warn, at: at, finding: compare(own, "me", append(records, nil, nil)[:2], at)}
	}
	other := record(listingOf(time.Hour, 0, list{"a/0"}, "you"))
	lines := func(text string) int { return strings.Count(log.String(), text) }
	for i, want := range []int{1, 1, 2} {
		r.log(v(time.Duration(i)*31*time.Second, other))
		require.Equal(t, want, lines("another proxy has a different list of backends"))
	}
	require.Contains(t, log.String(), `proxies=you their_list=a/0 own_list="a/0, b/0" keys_elsewhere=5`)
	for range 2 {
		r.log(v(2*time.Minute, nil))
		require.Equal(t, 1, lines(`level=INFO msg="all proxies have the same list of backends again" after=2m0s`))
	}
	r.log(v(2*time.Minute+time.Second, other))
	require.Equal(t, 3, lines("another proxy has a different list of backends"), "a new conflict is logged at once")
}
