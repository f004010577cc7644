package hotkeys

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/observe"
	"github.com/rlproxy/rlproxy/engine/registry"
	"github.com/rlproxy/rlproxy/internal/episodes"
	"github.com/rlproxy/rlproxy/internal/faultnet"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// source has the keys of a proxy.
type source struct {
	mu   sync.Mutex
	keys []observe.HotKey // guarded by mu
}

func (s *source) HotKeys(n int) []observe.HotKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]observe.HotKey(nil), s.keys[:min(n, len(s.keys))]...)
}

func (s *source) set(keys ...observe.HotKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = keys
}

// busy returns a key with a rate and as many admissions.
func busy(key string, rate int64) observe.HotKey {
	return observe.HotKey{Key: []byte(key), Rate: float64(rate), Decisions: rate, Admitted: rate, Limit: 100, Remaining: 1, Shards: 1}
}

// proxy is one proxy's exchange.
type proxy struct {
	*Exchange
	keys source
	log  proxytest.LockedBuffer
}

// start returns a proxy that has these nodes. It publishes its keys when the test calls round.
func start(t testing.TB, urls []string, keys ...observe.HotKey) *proxy {
	t.Helper()
	p := new(proxy)
	p.keys.set(keys...)
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: 5 * time.Second})
	require.NoError(t, err)
	p.Exchange = open(fleet, &p.keys, slog.New(slog.NewTextHandler(&p.log, nil)), time.Hour)
	t.Cleanup(func() {
		p.Close()
		require.NoError(t, fleet.Close())
	})
	return p
}

func (p *proxy) publish() { p.round(context.Background()) }

// sums returns the rates of all keys by name, and the number of proxies, without what was read before.
func (p *proxy) sums() (map[string]float64, int) {
	p.reading.Lock()
	p.read = nil
	p.reading.Unlock()
	rates := make(map[string]float64)
	keys, proxies := p.HotKeys()
	for _, k := range keys {
		rates[string(k.Key)] = k.Rate
	}
	return rates, proxies
}

func startNodes(t testing.TB, n int) (nodes []*redistest.Server, urls []string) {
	t.Helper()
	for range n {
		s := redistest.Start(t)
		nodes, urls = append(nodes, s), append(urls, s.URL())
	}
	return nodes, urls
}

func TestKeysOfAllProxiesAreAddedUp(t *testing.T) {
	_, urls := startNodes(t, 2)
	a := start(t, urls, busy("both", 10), busy("a", 1))
	b := start(t, urls, busy("both", 5), busy("b", 2))
	idle := start(t, urls)
	for range 3 { // a newer record replaces an older one
		a.publish()
		b.publish()
		idle.publish()
	}
	for _, p := range []*proxy{a, b} {
		rates, proxies := p.sums()
		require.Equal(t, 2, proxies, "a proxy without keys does not count")
		require.Equal(t, map[string]float64{"both": 15, "a": 1, "b": 2}, rates)
	}
	rates, proxies := idle.sums()
	require.Equal(t, 3, proxies)
	require.EqualValues(t, 2, idle.Stats()[0].Value)
	require.Equal(t, map[string]float64{"both": 15, "a": 1, "b": 2}, rates)
	for range 10 {
		keys, _ := idle.HotKeys()
		require.True(t, slices.IsSortedFunc(keys, func(a, b observe.HotKey) int { return cmp.Compare(b.Rate, a.Rate) }), "%v", keys)
	}

	b.keys.set(observe.HotKey{
		Key: []byte("both"), Rate: 1, DeniedRate: 0.5, Decisions: 123, Admitted: 100, Denied: 20, ByFail: 3, Refused: 2, Limit: 50, Remaining: 0, Shards: 4, ShadowDenied: 6, Lapsed: 7, Overrun: 8,
	})
	b.publish()
	a.sums()
	keys, _ := a.HotKeys()
	require.Equal(t, observe.HotKey{
		Key: []byte("both"), Rate: 11, DeniedRate: 0.5, Decisions: 133, Admitted: 110, Denied: 20, ByFail: 3, Refused: 2, Limit: 100, Remaining: 1, Shards: 4, ShadowDenied: 6, Lapsed: 7, Overrun: 8,
	}, keys[0], "the limit is as this proxy answered last")
}

// The limit and the remaining units are those of the first proxy that knows them, and the shards those of whichever
// knows most.
func TestSumsKeepWhatIsKnown(t *testing.T) {
	for _, c := range []struct{ own, other, want observe.HotKey }{
		{observe.HotKey{Limit: 9, Shards: 4}, observe.HotKey{Limit: 5, Remaining: 3, Shards: 1}, observe.HotKey{Limit: 9, Shards: 4}},
		{observe.HotKey{Limit: 9, Remaining: -1, Shards: 1}, observe.HotKey{Limit: 5, Remaining: 3, Shards: 4}, observe.HotKey{Limit: 5, Remaining: 3, Shards: 4}},
	} {
		other := key(c.other)
		add(&c.own, &other)
		require.Equal(t, c.want, c.own)
	}
}

// Of two records of a proxy, the newer one counts, on whichever node it is.
func TestOlderRecordsOfAProxyDoNotCount(t *testing.T) {
	nodes, urls := startNodes(t, 2)
	a, b := start(t, urls), start(t, urls, busy("b", 1))
	b.publish()
	for i, n := range nodes {
		older := n.Do("GET", indexKey+b.self)
		b.keys.set(busy("b", int64(2+i)))
		b.publish()
		n.Do("SET", indexKey+b.self, older)
		rates, _ := a.sums()
		require.InDelta(t, 2+i, rates["b"], 0)
	}
}

// A proxy publishes its keys on the nodes that take them.
func TestOneNodeIsEnough(t *testing.T) {
	nodes, urls := startNodes(t, 4)
	for _, n := range nodes[1:] {
		n.Kill()
	}
	a, b := start(t, urls), start(t, urls, busy("b", 1))
	b.publish()
	rates, _ := a.sums()
	require.InDelta(t, 1, rates["b"], 0)
}

// However often it is called, HotKeys reads the nodes once a second.
func TestNodesAreReadOnceASecond(t *testing.T) {
	nodes, urls := startNodes(t, 1)
	a := start(t, urls, busy("a", 1))
	now := time.Now()
	a.now = func() time.Time { return now }
	for reads := 1; reads <= 3; reads++ {
		a.HotKeys()
		now = now.Add(readAgain - 1)
		a.HotKeys()
		require.Contains(t, nodes[0].Do("INFO", "commandstats"), fmt.Sprintf("cmdstat_getrange:calls=%d,", reads))
		now = now.Add(1)
	}
}

// A node that only one of the proxies can reach does not keep them from finding each other.
func TestProxiesThatDisagreeAboutANodeFindEachOther(t *testing.T) {
	nodes, urls := startNodes(t, 3)
	for broken := range nodes {
		cut := faultnet.Start(t, nodes[broken].Addr)
		through := append([]string(nil), urls...)
		through[broken] = "redis://" + cut.Addr
		cut.Set(faultnet.Faults{Refuse: true})
		cut.Cut()
		a, b := start(t, through, busy("k", 1)), start(t, urls, busy("k", 2))
		a.publish()
		b.publish()
		for name, p := range map[string]*proxy{"a": a, "b": b} {
			rates, proxies := p.sums()
			require.Equal(t, 2, proxies, "%s, node %d", name, broken)
			require.InDelta(t, 3, rates["k"], 0)
		}
		a.Close()
		b.Close()
	}
}

func TestAwayNodesLeaveTheKeysOfThisProxy(t *testing.T) {
	nodes, urls := startNodes(t, 2)
	a, b := start(t, urls, busy("k", 1)), start(t, urls, busy("k", 2))
	a.publish()
	b.publish()
	nodes[0].Kill()
	_, proxies := a.sums()
	require.Equal(t, 2, proxies, "the other node has the record, too")
	nodes[1].Kill()
	b.publish()
	rates, proxies := a.sums()
	require.Equal(t, 1, proxies)
	require.Equal(t, map[string]float64{"k": 1}, rates)
	require.Empty(t, a.log.String(), "that a node is away is logged elsewhere")
	nodes[1].Run()
	proxytest.Eventually(t, "the node to be used again", func() bool {
		b.publish()
		_, proxies := a.sums()
		return proxies == 2
	})
}

// The proxy's own goroutine publishes its keys; a proxy that ends is forgotten at once, and one that was killed when
// its record ends.
func TestProxiesThatEndAreForgotten(t *testing.T) {
	nodes, urls := startNodes(t, 2)
	a, b := start(t, urls, busy("a", 1)), start(t, urls, busy("b", 1))
	c := open(b.fleet, &b.keys, slog.New(slog.DiscardHandler), time.Millisecond)
	proxytest.Eventually(t, "a record", func() bool {
		_, proxies := a.sums()
		return proxies == 2
	})
	c.Close()
	_, proxies := a.sums()
	require.Equal(t, 1, proxies)
	for _, n := range nodes {
		require.Zero(t, n.Client.DBSize(t.Context()).Val())
	}
	b.publish()
	for _, n := range nodes {
		left := n.Client.PTTL(t.Context(), indexKey+b.self).Val()
		require.Positive(t, left)
		require.LessOrEqual(t, left, publishFor)
		require.LessOrEqual(t, n.Client.PTTL(t.Context(), indexKey).Val(), time.Minute)
		n.Do("DEL", indexKey+b.self) // as its time to live will
	}
	_, proxies = a.sums()
	require.Equal(t, 1, proxies)
	require.Empty(t, a.log.String())
}

// A proxy without requests stores nothing on nodes.
func TestNothingToNoteCostsNodesNothing(t *testing.T) {
	nodes, urls := startNodes(t, 1)
	a := start(t, urls)
	a.publish()
	require.NotContains(t, nodes[0].Do("INFO", "commandstats"), "cmdstat_eval")
	a.keys.set(busy("k", 1))
	for range 10 {
		a.publish()
	}
	require.Contains(t, nodes[0].Do("INFO", "commandstats"), "cmdstat_set:calls=20,", "the record and the index")
}

// Whatever is stored under these names does not keep proxies from publishing and reading, and is logged once a minute.
func TestDamagedIndexesAndRecords(t *testing.T) {
	nodes, urls := startNodes(t, 1)
	n := nodes[0]
	a, b := start(t, urls, busy("a", 1)), start(t, urls, busy("b", 1))
	soon := strconv.FormatInt(time.Now().Add(time.Minute/2).UnixMilli(), 10)
	for _, index := range []string{
		"", "nonsense", "[", "[]", "7", "null", `{"x":{}}`, `{"x":"y"}`, `{"x":1e300}`, `["x"]`, strings.Repeat("[", 100_000),
		`{"` + strings.Repeat("x", 129) + `":` + soon + `}`, strings.Repeat("9", 1_000_000),
	} {
		n.Do("SET", indexKey, index)
		_, proxies := a.sums()
		require.LessOrEqual(t, proxies, 2)
		b.publish()
		rates, proxies := a.sums()
		require.Equal(t, 2, proxies, "%.100q", index)
		require.InDelta(t, 1, rates["b"], 0)
	}
	n.Do("DEL", indexKey)
	n.Do("LPUSH", indexKey, "x")
	b.publish()
	_, proxies := a.sums()
	require.Equal(t, 2, proxies)
	require.NotContains(t, a.log.String(), "ignoring")

	for range 3 {
		n.Do("SET", indexKey+b.self, "nonsense")
		rates, proxies := a.sums()
		require.Equal(t, 1, proxies)
		require.Equal(t, map[string]float64{"a": 1}, rates)
	}
	require.Equal(t, 1, strings.Count(a.log.String(), "ignoring a record of another proxy's busiest keys"), a.log.String())
	require.EqualValues(t, 3, a.ignored.Load())
	n.Do("SET", indexKey+b.self, strings.Repeat("x", 10<<20))
	_, proxies = a.sums()
	require.Equal(t, 1, proxies)
	n.Do("DEL", indexKey+b.self)
	n.Do("LPUSH", indexKey+b.self, "x")
	_, proxies = a.sums()
	require.Equal(t, 1, proxies)
	require.Contains(t, a.log.String(), "WRONGTYPE")
}

// An index has at most 64 proxies. Those in it stay.
func TestIndexesAreBounded(t *testing.T) {
	nodes, urls := startNodes(t, 1)
	a := start(t, urls, busy("a", 1))
	first := a.self
	for i := range registry.MaxNames + 5 {
		a.self = fmt.Sprintf("%s-%d", first[:8], i)
		a.publish()
	}
	require.Contains(t, a.log.String(), "cannot publish the busiest keys")
	require.EqualValues(t, registry.MaxNames+1, nodes[0].Client.DBSize(t.Context()).Val())
	b := start(t, urls)
	_, proxies := b.sums()
	require.Equal(t, 1+registry.MaxNames, proxies)
}

// A node refuses what the proxy's user may not do. That is logged, and the proxies continue.
func TestMissingRightsAreLogged(t *testing.T) {
	nodes, urls := startNodes(t, 1)
	nodes[0].Do("ACL", "SETUSER", "default", "-eval", "-getrange")
	a := start(t, urls, busy("a", 1))
	for range 2 {
		a.publish()
		_, proxies := a.sums()
		require.Equal(t, 1, proxies)
	}
	require.Equal(t, 1, strings.Count(a.log.String(), "cannot publish the busiest keys"), a.log.String())
	require.Equal(t, 1, strings.Count(a.log.String(), "cannot read the busiest keys of other proxies"))
	require.Equal(t, 2, strings.Count(a.log.String(), "NOPERM"))
	nodes[0].Do("ACL", "SETUSER", "default", "+@all")
	now := time.Now()
	a.now = func() time.Time { return now }
	now = now.Add(episodes.Every)
	a.publish()
	a.sums()
	require.Equal(t, 1, strings.Count(a.log.String(), `level=INFO msg="the busiest keys can be published again"`), a.log.String())
	require.Equal(t, 1, strings.Count(a.log.String(), `level=INFO msg="the busiest keys of other proxies can be read again"`))
	nodes[0].Do("ACL", "SETUSER", "default", "-eval")
	for _, want := range []int{2, 2, 3} {
		a.publish()
		require.Equal(t, want, strings.Count(a.log.String(), "cannot publish the busiest keys"))
		now = now.Add(episodes.Every / 2)
	}
	nodes[0].Do("ACL", "SETUSER", "default", "+@all")
}

// A full node takes records, which are small.
func TestFullNodesTakeNotes(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	require.ErrorContains(t, s.Client.Set(t.Context(), "k", strings.Repeat("x", 1000), 0).Err(), "OOM")
	a, b := start(t, []string{s.URL()}, busy("k", 1)), start(t, []string{s.URL()}, busy("k", 2))
	a.publish()
	_, proxies := b.sums()
	require.Equal(t, 2, proxies)
}

// In a cluster the places are slots of different masters.
func TestClusterHasPlacesOnAllItsNodes(t *testing.T) {
	c := redistest.StartCluster(t, 3, nil)
	a, b := start(t, []string{c.URL()}, busy("k", 1)), start(t, []string{c.URL()}, busy("k", 2))
	for _, p := range []*proxy{a, b} {
		proxytest.Eventually(t, "the nodes", func() bool { return len(p.fleet.Topology().Nodes) == 3 })
		require.Len(t, boards(p.fleet.Topology()), 3)
		p.publish()
	}
	for _, p := range []*proxy{a, b} {
		rates, proxies := p.sums()
		require.Equal(t, 2, proxies)
		require.InDelta(t, 3, rates["k"], 0)
		require.Empty(t, p.log.String())
	}
	var stored int64
	for _, n := range c.Nodes {
		stored += n.Client.DBSize(t.Context()).Val()
	}
	require.EqualValues(t, copies*3, stored, "two indexes, with two records each")
}

// No client's key is stored under these names.
func TestRecordsHaveNamesOfTheirOwn(t *testing.T) {
	for _, name := range []string{indexKey, "rl:{%hotkeys0}", indexKey + "0123456789abcdef", "rl:{%hotkeys12}0123456789abcdef"} {
		_, _, ok := shard.ParseStoredKey(nil, []byte(name))
		require.False(t, ok, name)
	}
}

// What a proxy costs its nodes, for the documentation: 64 proxies publish 100 keys each.
func BenchmarkNode(b *testing.B) {
	nodes, urls := startNodes(b, 1)
	var keys []observe.HotKey
	for i := range maxKeys {
		k := busy(fmt.Sprintf("tenant:%08d", i), int64(100_000-i))
		k.DeniedRate, k.Denied, k.Limit = 123.45, 1_234_567, 1_000_000
		keys = append(keys, k)
	}
	a := start(b, urls, keys...)
	b.Run("publish", func(b *testing.B) {
		for b.Loop() {
			a.publish()
		}
		b.ReportMetric(float64(len(encode(keys, 1))), "bytes")
	})
	first := a.self
	for i := range registry.MaxNames {
		a.self = fmt.Sprintf("%s-%d", first[:8], i)
		a.publish()
	}
	b.Run("read", func(b *testing.B) {
		for b.Loop() {
			a.sums()
		}
	})
	stats := nodes[0].Do("INFO", "commandstats")
	for line := range strings.Lines(stats) {
		if strings.Contains(line, "_eval:") || strings.Contains(line, "_getrange:") {
			b.Log(strings.TrimSpace(line))
		}
	}
}
