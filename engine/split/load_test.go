package split

import (
	"strings"
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/stretchr/testify/require"
)

// A request's own SHARDS takes precedence over rules, and the first rule that matches over
// others. A key never has more shards than the smallest limit has units. Some requests are
// never split.
func TestShardsWanted(t *testing.T) {
	s, _ := open(t, 3, Config{})
	s.Configure(Settings{Rules: []Rule{{Glob: "api:*", Shards: 4}, {Glob: "api:slow", Shards: 2}, {Glob: "one:*", Shards: 1}, {Glob: "ends:?", Shards: 3}}})
	for _, row := range []struct {
		why    string
		key    string
		shards int
		change func(r *engine.Request)
		want   int
	}{
		{why: "nothing wants a split", key: "k"},
		{why: "SHARDS", key: "k", shards: 5, want: 5},
		{why: "the first rule", key: "api:slow", want: 4},
		{why: "SHARDS before rules", key: "api:slow", shards: 2, want: 2},
		{why: "a rule against a split", key: "one:a", want: 1},
		{why: "a rule that matches the client's key", key: "ends:a\xffs", want: 3}, // its shadow
		{why: "a small limit", key: "k", shards: 5, want: 3, change: func(r *engine.Request) { r.Windows[0].Limit = 3 }},
		{why: "a smaller limit", key: "k", shards: 5, want: 2, change: func(r *engine.Request) {
			r.N, r.Windows[1] = 2, limit.Window{Limit: 2, Length: 1000}
		}},
		{why: "the most", key: "k", shards: 1 << 20, want: engine.MaxShards, change: func(r *engine.Request) { r.Windows[0].Limit = 1e9 }},
		{why: "without cost", key: "k", shards: 5, want: 1, change: func(r *engine.Request) { r.Cost = 0 }},
		{why: "a reset", key: "k", shards: 5, want: 1, change: func(r *engine.Request) { r.Op = engine.OpReset }},
		{why: "CL.THROTTLE", key: "api:a", want: 1, change: func(r *engine.Request) {
			*r = conformance.Throttle("api:a", 10, 5, 60, 1)
		}},
	} {
		r := ask(row.key, 1000, row.shards)
		if row.change != nil {
			row.change(&r)
		}
		require.Equal(t, row.want, s.wanted(&r), row.why)
	}
}

// A key with too many calls on one node is split over all nodes, until the calls to all of its
// shards together have been few for a while.
func TestLoadSplitsKeys(t *testing.T) {
	s, n := open(t, 3, Config{})
	s.Configure(Settings{Threshold: 100, Rules: []Rule{{Glob: "one:*", Shards: 1}}})
	r := ask("k", 1000, 0)
	at := func(shard int, rate int64) *wire.Answer {
		a := &wire.Answer{Rate: rate, Shards: 3, Status: wire.AtShard}
		if shard == 0 {
			a.Status = wire.AtHome
		}
		return a
	}
	node := &wire.Answer{Rate: 99}
	s.Observe(&r, 0, node)
	require.Equal(t, 1, s.Shards(r.Key), "too few calls")
	node.Rate = 100
	small := ask("small", 2*minShardLimit-1, 0)
	s.Observe(&small, 0, node)
	require.Equal(t, 1, s.Shards(small.Key), "too few units per shard")
	own := ask("own", 1000, 1)
	s.Observe(&own, 0, node)
	require.Equal(t, 1, s.Shards(own.Key), "the request says how many")
	gcra := conformance.Throttle("gcra", 1000, 5, 60, 1)
	s.Observe(&gcra, 0, node)
	require.Equal(t, 1, s.Shards(gcra.Key))
	ruled := ask("one:a", 1000, 0)
	s.Observe(&ruled, 0, node)
	require.Equal(t, 1, s.Shards(ruled.Key), "a rule says how many")
	once := ask("once", 1000, 0)
	once.Hold = &engine.Hold{Once: true}
	s.Observe(&once, 0, node)
	require.Equal(t, 1, s.Shards(once.Key), "no shard but the home decides requests with ids")
	require.Empty(t, n.log.String())

	s.Observe(&r, 0, node)
	require.Equal(t, 3, s.Shards(r.Key))
	require.Equal(t, 3, s.wanted(&r))
	require.Equal(t, 1, strings.Count(n.log.String(), `msg="splitting a key because of its load" key=k shards=3 calls_per_second=100`))
	s.Observe(&r, 0, at(0, 30))
	s.Observe(&r, 1, at(1, 30))
	n.now.Add(coolAfter)
	s.Observe(&r, 0, at(0, 20))
	s.Observe(&r, 1, at(1, 30))
	require.Equal(t, 3, s.Shards(r.Key), "20 and 30 are half of the threshold")
	n.now.Add(coolAfter)
	s.Observe(&r, 0, at(0, 19))
	s.Observe(&r, 1, at(1, 30))
	require.Equal(t, 3, s.Shards(r.Key), "not for long enough")
	n.now.Add(1)
	s.Observe(&r, 0, at(0, 19))
	require.Zero(t, s.byLoad.Load())
	require.Equal(t, 1, s.Shards(r.Key))
	require.Equal(t, 1, strings.Count(n.log.String(), "msg=\"no longer splitting a key because of its load\" key=k\n"))
}

// The log names a key by its first bytes, whatever its length.
func TestLoadLogsTheBeginningOfALongKey(t *testing.T) {
	s, n := open(t, 3, Config{})
	s.Configure(Settings{Threshold: 100})
	r := ask(strings.Repeat("k", maxLogged)+"lost", 1000, 0)
	s.Observe(&r, 0, &wire.Answer{Rate: 100})
	n.now.Add(keepFor + 1)
	s.learn(r.Key, 0) // sweeps
	require.Zero(t, s.byLoad.Load())
	require.Equal(t, 2, strings.Count(n.log.String(), `because of its load" key="`+strings.Repeat("k", maxLogged)+`... (4 more bytes)"`))
}

// A shard that no request asks any more does not keep its key split by the rate that it had.
func TestRatesOfShardsThatAreNotAskedExpire(t *testing.T) {
	s, n := open(t, 3, Config{})
	s.Configure(Settings{Threshold: 100})
	r := ask("k", 1000, 0)
	s.Observe(&r, 0, &wire.Answer{Rate: 100})
	for shard := range 3 {
		s.Observe(&r, shard, &wire.Answer{Rate: 60, Status: wire.AtShard})
	}
	for range 2 * coolAfter / 1000 {
		n.now.Add(1000)
		require.Equal(t, 3, s.Shards(r.Key))
		s.choose(&r, 3, -1)
		s.Observe(&r, 1, &wire.Answer{Rate: 1, Status: wire.AtShard}) // one client with one ID
	}
	n.now.Add(1000)
	s.Observe(&r, 1, &wire.Answer{Rate: 1, Status: wire.AtShard})
	require.Equal(t, 1, s.Shards(r.Key))
	require.Zero(t, s.byLoad.Load())
}

// If a limit is too small for a shard on every node, the key has fewer shards than nodes.
func TestLoadSplitsSmallLimitsLess(t *testing.T) {
	s, _ := open(t, 4, Config{})
	s.Configure(Settings{Threshold: 10})
	r := ask("k", 3*minShardLimit, 0)
	s.Observe(&r, 0, &wire.Answer{Rate: 10})
	require.Equal(t, 3, s.Shards(r.Key))
}

// Changed rules apply from the next request on. Requests about a key that is no longer split go
// to its home, and its spread is forgotten when the home says that nothing is lent.
func TestChangedSettingsApplyToTheNextRequest(t *testing.T) {
	s, n := open(t, 3, Config{})
	n.reply = func(*Call) { require.Fail(t, "a node was called") }
	r := ask("api:7", 1000, 0)
	route := func() int {
		shard, waits, ok := s.Route(new(Routes), &r)
		require.True(t, ok && !waits)
		return shard
	}
	require.Zero(t, route())
	s.Configure(Settings{Rules: []Rule{{Glob: "api:*", Shards: 4}}})
	asked := map[int]bool{}
	for range 10 * maxTurn {
		asked[route()] = true
		n.now.Add(1)
	}
	require.Len(t, asked, 4)
	require.EqualValues(t, 2, s.PossiblySplit.Load())

	s.Configure(Settings{})
	require.EqualValues(t, 1, s.PossiblySplit.Load(), "shards may still have loans")
	for range 10 {
		require.Zero(t, route())
	}
	s.Observe(&r, 0, &wire.Answer{Shards: 4})
	require.Equal(t, 4, s.Shards(r.Key))
	throttle := conformance.Throttle(string(r.Key), 1000, 5, 60, 1)
	s.Observe(&throttle, 0, new(wire.Answer))
	require.Equal(t, 4, s.Shards(r.Key), "an answer about what is never split says nothing")
	s.Observe(&r, 0, &wire.Answer{Shards: 0})
	require.Zero(t, s.PossiblySplit.Load())

	s.Configure(Settings{Threshold: 100})
	s.Observe(&r, 0, &wire.Answer{Rate: 100})
	require.Equal(t, 3, s.wanted(&r))
	s.Configure(Settings{Threshold: 0})
	require.Zero(t, s.wanted(&r))
	require.Zero(t, s.byLoad.Load())
	s.Observe(&r, 0, &wire.Answer{Shards: 0, Rate: 100})
	require.Zero(t, s.PossiblySplit.Load())
}
