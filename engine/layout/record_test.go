package layout

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

// open returns a fleet of the servers, closed when the test ends.
func open(t testing.TB, urls ...string) *backend.Fleet {
	t.Helper()
	fleet, err := backend.Open(backend.Config{Backends: urls, Timeout: 5 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, fleet.Close()) })
	return fleet
}

// asker stores layouts on one node.
type asker struct {
	t    testing.TB
	node *backend.Node
}

func (a asker) ask(own list, index int, proxy string, ttl time.Duration) reading {
	a.t.Helper()
	l, err := ask(context.Background(), a.node, own, index, proxy, ttl)
	require.NoError(a.t, err)
	return l
}

func TestRecordHoldsTheLayoutsOfAllProxies(t *testing.T) {
	s := redistest.Start(t)
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	one, two := list{"a/0"}, list{`"a"/0`, "b\n/0"}
	l := a.ask(one, 0, "p1", entryTTL)
	require.Len(t, l.entries, 1)
	require.Positive(t, l.latency)
	require.Less(t, l.offset.Abs(), l.latency+time.Millisecond, "the clock of the node is that of this machine")
	a.ask(one, 0, "p2", entryTTL)
	l = a.ask(two, 1, "p3", entryTTL)
	require.Len(t, l.entries, 2)
	require.Equal(t, one, l.entries[0].list)
	require.Contains(t, l.entries[0].proxies, "p1")
	require.Contains(t, l.entries[0].proxies, "p2")
	require.Equal(t, two, l.entries[1].list)
	require.Equal(t, 1, l.entries[1].index)
	require.WithinDuration(t, time.Now().Add(entryTTL), l.entries[1].proxies["p3"], time.Second)

	a.ask(one, 0, "p1", 0)
	l = a.ask(one, 0, "p2", 0)
	require.Len(t, l.entries, 1, "the proxies of the first layout have left")
	require.Empty(t, a.ask(two, 1, "p3", 0).entries)
	require.Zero(t, s.Client.DBSize(t.Context()).Val(), "an empty record is not stored")
}

func TestEntriesExpire(t *testing.T) {
	s := redistest.Start(t)
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	a.ask(list{"a/0"}, 0, "p1", 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return len(a.ask(list{"b/0"}, 0, "p2", time.Second).entries) == 1
	}, 10*time.Second, time.Millisecond)
	require.Positive(t, s.Client.PTTL(t.Context(), recordKey).Val())
}

// Reading a record that has the proxy's entry writes nothing, so that nodes need not persist and
// replicate anything.
func TestReadingARecordRarelyWrites(t *testing.T) {
	s := redistest.Start(t)
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	for range 20 {
		a.ask(list{"a/0"}, 0, "p1", entryTTL)
	}
	require.Contains(t, s.Do("INFO", "commandstats"), "cmdstat_set:calls=1,")
}

// If there are more proxies than the record has room for, they do not displace each other.
func TestRecordIsBounded(t *testing.T) {
	s := redistest.Start(t)
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	for range 2 {
		for i := range maxProxies + 20 {
			a.ask(list{"a/0"}, 0, fmt.Sprint("p", i), entryTTL)
		}
	}
	require.Len(t, a.ask(list{"a/0"}, 0, "p1", entryTTL).entries[0].proxies, maxProxies)
	require.Contains(t, s.Do("INFO", "commandstats"), fmt.Sprintf("cmdstat_set:calls=%d,", maxProxies))
	for i := range 3 * maxEntries {
		l := a.ask(list{fmt.Sprint(i)}, 0, "p", entryTTL)
		require.LessOrEqual(t, len(l.entries), maxEntries)
		require.Equal(t, list{fmt.Sprint(i)}, l.entries[len(l.entries)-1].list, "the newest is there")
	}
}

// Any other value of the record's key counts as an empty record.
func TestDamagedRecordsAreReplaced(t *testing.T) {
	s := redistest.Start(t)
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	for _, damaged := range []string{
		"", "nonsense", "[", "{}", "7", "null", `[null]`, `[7]`, `["x"]`, `[{}]`, `[{"list":1,"index":{},"proxies":7}]`,
		`[{"list":"[\"b\"]","index":"0","proxies":{"p":"x"}}]`, `[{"list":{},"index":"0","proxies":[1,2]}]`,
		`[{"list":"[\"b\"]","index":"0","proxies":{"p":1e300}}]`, strings.Repeat("[", 100_000), strings.Repeat("9", 2_000_000),
		`[{"proxies":{"p":-1}},{"proxies":{}}]`,
	} {
		require.NoError(t, s.Client.Set(t.Context(), recordKey, damaged, 0).Err())
		l := a.ask(list{"a/0"}, 0, "p1", entryTTL)
		require.Len(t, l.entries, 1, "%.100q", damaged)
		require.Equal(t, list{"a/0"}, l.entries[0].list)
	}
	require.NoError(t, s.Client.Del(t.Context(), recordKey).Err())
	require.NoError(t, s.Client.LPush(t.Context(), recordKey, "x").Err())
	require.Len(t, a.ask(list{"a/0"}, 0, "p1", entryTTL).entries, 1)

	future := fmt.Sprintf(`[{"list":"[\"b\"]","index":"0","proxies":{"p":%d}}]`, time.Now().Add(time.Hour).UnixMilli())
	require.NoError(t, s.Client.Set(t.Context(), recordKey, future, 0).Err())
	require.Len(t, a.ask(list{"a/0"}, 0, "p1", entryTTL).entries, 1, "the clock was ahead by an hour")
}

// A node without free memory stores the record: it is small, and needed there too.
func TestFullNodesStoreTheRecord(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	require.ErrorContains(t, s.Client.Set(t.Context(), "k", strings.Repeat("x", 1000), 0).Err(), "OOM")
	a := asker{t, open(t, s.URL()).Topology().Nodes[0]}
	require.Len(t, a.ask(list{"a/0"}, 0, "p1", entryTTL).entries, 1)
}

// No client's key is stored under the record's key.
func TestRecordHasAKeyOfItsOwn(t *testing.T) {
	_, _, ok := shard.ParseStoredKey(nil, []byte(recordKey))
	require.False(t, ok)
}

func FuzzParse(f *testing.F) {
	f.Add("1792000000", "5", `[{"list":"[\"a\"]","index":"0","proxies":{"p":1792000001000}}]`)
	f.Add("-1", "x", `[]`)
	f.Add("1792000000", "5", `[{"list":"[\"b\",\"a\"]","index":"-1","proxies":{"p":1e999}}]`)
	f.Fuzz(func(t *testing.T, seconds, micros, text string) {
		l, err := parse([]any{seconds, micros, text}, now, now.Add(time.Millisecond))
		if err != nil {
			return
		}
		for _, e := range l.entries {
			if e.index < 0 || e.index >= len(e.list) || len(e.proxies) > maxProxies {
				t.Fatalf("%q: an entry is out of bounds: %+v", text, e)
			}
		}
		own := list{"a", "b"}
		if c := compare(own, "p", []*reading{&l, &l}, now).conflict; c != nil {
			c.Contested([]byte("k"), 3)
		}
	})
}
