package layout

import (
	"strconv"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/shard"
	"github.com/stretchr/testify/require"
)

var now = time.Unix(1_792_000_000, 0)

// listingOf returns a listing that expires after the given time.
func listingOf(after time.Duration, index int, names list, proxies ...string) listing {
	e := listing{list: names, index: index, proxies: map[string]time.Time{}}
	for _, p := range proxies {
		e.proxies[p] = now.Add(after)
	}
	return e
}

func record(listings ...listing) *contents { return &contents{listings: listings, earlier: true} }

// contested returns how many of 3000 keys are contested.
func contested(c *Conflict, shards int) (n int) {
	for i := range 3000 {
		if c.Contested(strconv.AppendInt(nil, int64(i), 10), shards) {
			n++
		}
	}
	return n
}

func TestLayoutsAreComparedByServers(t *testing.T) {
	ab, abc, a, x, xb := list{"a/0", "b/0"}, list{"a/0", "b/0", "c/0"}, list{"a/0"}, list{"x/0"}, list{"b/0", "x/0"}
	const long = time.Minute
	for _, row := range []struct {
		what     string
		own      list
		records  []*contents
		others   int
		twice    [][2]int
		conflict bool
		least    int // least contested keys of 3000
		most     int // most contested keys of 3000
	}{
		{"nothing is known", ab, []*contents{nil, nil}, 0, nil, false, 0, 0},
		{"all have one layout", ab, []*contents{record(listingOf(long, 0, ab, "me", "you")), record(listingOf(long, 1, ab, "me", "you"))}, 0, nil, false, 0, 0},
		{"another has an additional node", ab, []*contents{record(listingOf(long, 0, abc, "you")), nil}, 1, nil, true, 900, 1100},
		{"another lacks a node", abc, []*contents{record(listingOf(long, 0, ab, "you")), nil, nil}, 1, nil, true, 900, 1100},
		{"this one has one node, and another has two", a, []*contents{record(listingOf(long, 0, ab, "you"))}, 1, nil, true, 1350, 1650},
		{"both of these", ab, []*contents{record(listingOf(long, 0, abc, "you"), listingOf(long, 0, a, "they")), nil}, 2, nil, true, 1900, 2100},
		{"another had one until now", ab, []*contents{record(listingOf(0, 0, abc, "you")), nil}, 0, nil, false, 0, 0},
		{"one node with another name", a, []*contents{record(listingOf(long, 0, x, "you"))}, 1, nil, false, 0, 0},
		{"one of two nodes has another name, so that keys hash differently", ab,
			[]*contents{record(listingOf(long, 1, xb, "you")), record(listingOf(long, 0, xb, "you"))}, 1, nil, true, 900, 2000},
		{"a server is listed twice", ab,
			[]*contents{record(listingOf(long, 0, ab, "me"), listingOf(long, 1, ab, "me")), record(listingOf(long, 0, ab, "me"), listingOf(long, 1, ab, "me"))}, 0, [][2]int{{0, 1}}, false, 0, 0},
		{"a server is listed twice, and another proxy lists it once", ab,
			[]*contents{record(listingOf(long, 0, ab, "me"), listingOf(long, 1, ab, "me"), listingOf(long, 0, a, "you")), nil}, 1, [][2]int{{0, 1}}, true, 0, 0},
		{"another reaches other servers by the same names", ab,
			[]*contents{record(listingOf(long, 0, ab, "me"), listingOf(long, 1, ab, "you")), record(listingOf(long, 1, ab, "me"), listingOf(long, 0, ab, "you"))}, 1, nil, true, 3000, 3000},
		{"this proxy has just started", ab, []*contents{{listings: []listing{listingOf(long, 0, ab, "me"), listingOf(long, 1, ab, "you")}}, nil}, 0, nil, false, 0, 0},
		{"this proxy found no room in the record", ab, []*contents{record(listingOf(long, 1, ab, "you")), nil}, 0, nil, false, 0, 0},
	} {
		found := compare(row.own, "me", row.records, now)
		require.Len(t, found.others, row.others, row.what)
		require.Equal(t, row.twice, found.twice, row.what)
		require.Equal(t, row.conflict, found.conflict != nil, row.what)
		if !row.conflict {
			continue
		}
		n := contested(found.conflict, 1)
		require.GreaterOrEqual(t, n, row.least, row.what)
		require.LessOrEqual(t, n, row.most, row.what)
		if len(found.others) == 1 {
			require.InDelta(t, float64(n)/30, found.conflict.share(found.others[0]), 4, row.what)
		}
	}
}

// A key is contested only if its two homes differ, and a split key if any of its shards do.
func TestContestedKeysAreThosePlacedElsewhere(t *testing.T) {
	ab, abc := list{"a/0", "b/0"}, list{"a/0", "b/0", "c/0"}
	c := compare(ab, "me", []*contents{record(listingOf(time.Minute, 0, abc, "you")), nil}, now).conflict
	here, there := shard.NewPlacement(ab), shard.NewPlacement(abc)
	for i := range 500 {
		key := strconv.AppendInt(nil, int64(i), 10)
		want := ab[here.Home(key)] != abc[there.Home(key)]
		require.Equal(t, want, c.Contested(key, 1), "key %s", key)
		require.Equal(t, want, c.Contested(key, 0), "key %s", key)
		second := ab[here.Order(key, nil)[1]] != abc[there.Order(key, nil)[1]]
		require.Equal(t, want || second, c.Contested(key, 2), "key %s", key)
		shadow := shard.AppendName(nil, key, true)
		require.Equal(t, want, c.Contested(shadow, 1), "the shadow of key %s", key)
		require.Equal(t, want || second, c.Contested(shadow, 2), "the shadow of key %s", key)
		require.True(t, c.Contested(key, 1024), "three nodes and two cannot place all shards alike")
	}
}

func TestContestedAllocatesNothing(t *testing.T) {
	c := compare(list{"a/0", "b/0"}, "me", []*contents{record(listingOf(time.Minute, 0, list{"a/0"}, "you")), nil}, now).conflict
	key := []byte("key")
	require.Zero(t, testing.AllocsPerRun(100, func() { c.Contested(key, 1) }))
}
