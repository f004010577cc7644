package layout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/registry"
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
	was  *contents
}

func askerOf(t testing.TB, s *redistest.Server) *asker {
	return &asker{t, open(t, s.URL()).Topology().Nodes[0], nil}
}

func (a *asker) ask(own list, index int, proxy string, ttl time.Duration) *contents {
	a.t.Helper()
	r, err := ask(context.Background(), a.node, own, index, proxy, ttl, a.was)
	require.NoError(a.t, err)
	a.was = r
	return r
}

func TestRecordHoldsTheLayoutsOfAllProxies(t *testing.T) {
	s := redistest.Start(t)
	a := askerOf(t, s)
	one, two := list{"a/0"}, list{`"a"/0`, "b\n/0"}
	l := a.ask(one, 0, "p1", listingTTL)
	require.Len(t, l.listings, 1)
	a.ask(one, 0, "p2", listingTTL)
	l = a.ask(two, 1, "p3", listingTTL)
	require.Len(t, l.listings, 2)
	again := askerOf(t, s).ask(two, 1, "p3", listingTTL).listings
	require.Equal(t, one, again[0].list, "a proxy that does not know the layout reads it")
	require.Len(t, again[0].proxies, 2)
	require.Equal(t, one, l.listings[0].list)
	require.Contains(t, l.listings[0].proxies, "p1")
	require.Contains(t, l.listings[0].proxies, "p2")
	require.Equal(t, two, l.listings[1].list)
	require.Equal(t, 1, l.listings[1].index)
	require.WithinDuration(t, time.Now().Add(listingTTL), l.listings[1].proxies["p3"], time.Second)

	a.ask(one, 0, "p1", 0)
	a.ask(one, 0, "p2", 0)
	l = a.ask(two, 1, "p3", listingTTL)
	require.Len(t, l.listings, 1, "the proxies of the first layout have left")
	a.ask(two, 1, "p3", 0)
	require.Zero(t, s.Client.DBSize(t.Context()).Val(), "an empty record is not stored")
}

func TestListingsExpire(t *testing.T) {
	s := redistest.Start(t)
	a := askerOf(t, s)
	a.ask(list{"a/0"}, 0, "p1", 50*time.Millisecond)
	require.Eventually(t, func() bool {
		return len(a.ask(list{"b/0"}, 0, "p2", time.Second).listings) == 1
	}, 10*time.Second, time.Millisecond)
	require.Positive(t, s.Client.PTTL(t.Context(), recordKey).Val())
}

// Reading a record that has the proxy's listing writes nothing, so that nodes need not persist and replicate anything.
func TestReadingARecordRarelyWrites(t *testing.T) {
	s := redistest.Start(t)
	a := askerOf(t, s)
	for range 20 {
		a.ask(list{"a/0"}, 0, "p1", listingTTL)
	}
	require.Contains(t, s.Do("INFO", "commandstats"), "cmdstat_set:calls=2,", "the layout and the index")
}

// If there are more proxies than the record has room for, they do not displace each other. But each layout is there.
func TestRecordIsBounded(t *testing.T) {
	s := redistest.Start(t)
	a := askerOf(t, s)
	for range 2 {
		for i := range registry.MaxNames + 20 {
			a.ask(list{"a/0"}, 0, fmt.Sprint("p", i), listingTTL)
		}
	}
	l := a.ask(list{"a/0"}, 0, "p1", listingTTL)
	require.True(t, l.crowded)
	require.Len(t, l.listings[0].proxies, registry.MaxNames)
	require.Contains(t, s.Do("INFO", "commandstats"), fmt.Sprintf("cmdstat_set:calls=%d,", 2*registry.MaxNames))
	other := list{"b/0"}
	for i := range 3 {
		l = a.ask(other, 0, fmt.Sprint("q", i), listingTTL)
		require.Len(t, l.listings, 2)
		mine := slices.IndexFunc(l.listings, func(e listing) bool { return slices.Equal(e.list, other) })
		require.Equal(t, []string{"q0"}, slices.Collect(maps.Keys(l.listings[mine].proxies)), "one takes the place of another layout's")
	}
	for i := range 3 * registry.MaxNames {
		own := list{fmt.Sprint(i)}
		l := a.ask(own, 0, "p", listingTTL)
		require.LessOrEqual(t, len(l.listings), registry.MaxNames)
		require.True(t, slices.ContainsFunc(l.listings, func(e listing) bool { return slices.Equal(e.list, own) }), "the newest is there")
	}
}

// Any other value of the record's key counts as an empty record.
func TestDamagedRecordsAreReplaced(t *testing.T) {
	s := redistest.Start(t)
	soon := time.Now().Add(5 * time.Second).UnixMilli()
	for _, damaged := range []string{
		"", "nonsense", "[", "{}", "7", "null", `[null]`, `[7]`, `["x"]`, `[{}]`, `{"p":"x"}`, `{"p 0 x":1e300}`, `{"p":-1}`, `{"p":{}}`,
		strings.Repeat("[", 100_000), strings.Repeat("9", 2_000_000),
		fmt.Sprintf(`{"p 0 x":%d}`, time.Now().Add(time.Hour).UnixMilli()), // the clock was ahead by an hour
		fmt.Sprintf(`{"":%d," ":%d,"p":%d,"p x y":%d,"p -1 y":%d,"p 0 y":%d,"p 9 %s":%d}`, soon, soon, soon, soon, soon, soon, hash(list{"a/0"}.text()), soon),
	} {
		a := askerOf(t, s)
		require.NoError(t, s.Client.FlushAll(t.Context()).Err())
		require.NoError(t, s.Client.Set(t.Context(), recordKey, damaged, 0).Err())
		l := a.ask(list{"a/0"}, 0, "p1", listingTTL)
		require.Len(t, l.listings, 1, "%.100q", damaged)
		require.Equal(t, list{"a/0"}, l.listings[0].list)
	}
	require.NoError(t, s.Client.Del(t.Context(), recordKey).Err())
	require.NoError(t, s.Client.LPush(t.Context(), recordKey, "x").Err())
	require.Len(t, askerOf(t, s).ask(list{"a/0"}, 0, "p1", listingTTL).listings, 1)
}

// A layout that is not the one that its name says, or none at all, is ignored.
func TestDamagedLayoutsAreIgnored(t *testing.T) {
	s := redistest.Start(t)
	for _, damaged := range []string{
		"", "nonsense", "{}", "[]", "null", "7", `[7]`, `["b","a"]`, `["` + strings.Repeat("x", maxWord+1) + `"]`, strings.Repeat("[", 100_000),
		"[" + strings.Repeat(`"x",`, maxNames) + `"x"]`, `["x` + strings.Repeat("x", maxRecord) + `"]`,
	} {
		for _, sum := range []string{hash(damaged), hash(`["a"]`)} {
			name := "p 0 " + sum
			askerOf(t, s).ask(list{"a/0"}, 0, "p1", listingTTL)
			index := fmt.Sprintf(`{"%s":%d}`, name, time.Now().Add(5*time.Second).UnixMilli())
			require.NoError(t, s.Client.Set(t.Context(), recordKey, index, 0).Err())
			require.NoError(t, s.Client.Set(t.Context(), recordKey+name, damaged, 0).Err())
			l := askerOf(t, s).ask(list{"a/0"}, 0, "p1", listingTTL)
			require.Len(t, l.listings, 1, "%.100q", damaged)
			require.Len(t, l.listings[0].proxies, 1, "%.100q", damaged)
		}
	}
	require.NoError(t, s.Client.Set(t.Context(), recordKey+"p 0 "+hash("x"), strings.Repeat("x", 10<<20), 0).Err())
	require.Len(t, askerOf(t, s).ask(list{"a/0"}, 0, "p1", listingTTL).listings, 1)
}

// A node without free memory stores the record: it is small, and needed there too.
func TestFullNodesStoreTheRecord(t *testing.T) {
	s := redistest.Start(t, "--maxmemory", "1", "--maxmemory-policy", "noeviction")
	require.ErrorContains(t, s.Client.Set(t.Context(), "k", strings.Repeat("x", 1000), 0).Err(), "OOM")
	a := askerOf(t, s)
	require.Len(t, a.ask(list{"a/0"}, 0, "p1", listingTTL).listings, 1)
}

// No client's key is stored under the record's key.
func TestRecordHasAKeyOfItsOwn(t *testing.T) {
	_, _, ok := shard.ParseStoredKey(nil, []byte(recordKey))
	require.False(t, ok)
}

func FuzzListings(f *testing.F) {
	f.Add("p 0 ", `["a"]`)
	f.Add("p q -1 ", `["b","a"]`)
	f.Add("", `[`)
	f.Fuzz(func(t *testing.T, name, text string) {
		name += hash(text)
		known := map[string]list{hash(text): parse([]byte(text))}
		r := contents{listings: listings(map[string]time.Time{name: now.Add(time.Second), text: now}, known)}
		for _, e := range r.listings {
			if e.index < 0 || e.index >= len(e.list) {
				t.Fatalf("%q: a listing is out of bounds: %+v", text, e)
			}
		}
		if c := compare(list{"a", "b"}, "p", []*contents{&r, &r}, now).conflict; c != nil {
			c.Contested([]byte("k"), 3)
		}
	})
}
