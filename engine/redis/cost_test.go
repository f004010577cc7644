package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

// A run ends by cost as well as by number. What repeats the request before it costs next to nothing.
func TestARunEndsByCost(t *testing.T) {
	t.Parallel()
	const allowed = 2 * time.Millisecond
	e := openAlways(t, time.Minute, "redis://"+startFake(t).addr)
	e.topology().queues[0].allowance.cost.Store(int64(allowed))
	eight := conformance.Slide("k", 5, minute, 1)
	for eight.N < limit.MaxWindows {
		eight.Windows[eight.N] = limit.Window{Limit: 5, Length: minute * int64(1+eight.N)}
		eight.N++
	}
	sharded := conformance.Slide("", 500, minute, 1)
	sharded.Shards = 100
	together := conformance.Slide("k", 5, minute, 1)
	together.MoreKeys = 1
	for name, c := range map[string]struct {
		requests []engine.Request // again and again
		other    bool             // each is about another key
		run      int              // requests in the first run
	}{
		"decisions":    {[]engine.Request{conformance.Slide("", 5, minute, 1)}, true, int(allowed / entryCost)},
		"equal":        {[]engine.Request{conformance.Slide("k", 5, minute, 1)}, false, batchItems},
		"with windows": {[]engine.Request{eight}, true, int(allowed / (entryCost + 7*windowCost))},
		"with ids":     {[]engine.Request{reserve("k", "id", 1000, 10)}, false, int(allowed / entryCost)},
		"settles":      {[]engine.Request{settle("k", "id", 10)}, false, int(allowed / entryCost)},
		"resets":       {[]engine.Request{conformance.Reset("")}, true, int(allowed / resetCost)},
		"many shards":  {[]engine.Request{sharded}, true, int(allowed / (entryCost + 99*shardCost))},
		"inspect":      {[]engine.Request{conformance.Inspect("k")}, false, int(allowed / inspectCost)},
		"several keys": {[]engine.Request{together, conformance.Slide("l", 5, minute, 1)}, false, 2 * int(allowed/(2*entryCost))},
	} {
		t.Run(name, func(t *testing.T) {
			p := &engine.Pipeline{}
			for i := range 2 * batchItems {
				r := p.Add()
				if *r = c.requests[i%len(c.requests)]; c.other {
					r.Key = fmt.Append(nil, "key", i)
				}
			}
			p.Grow()
			require.Equal(t, c.run, e.route(e.newPlan().(*plan), p, 0))
		})
	}
}

// While batches are slow, what is stored makes requests dearer than most are: pipelines are asked in shorter runs, down to two
// requests. Batches that are not slow make them longer again.
func TestTheAllowanceFollowsWhatBatchesTake(t *testing.T) {
	t.Parallel()
	var a allowance
	a.open()
	var at time.Duration
	batch := func(cost, took time.Duration) time.Duration {
		at += time.Second
		a.observe(cost, at, at+took)
		return a.load()
	}
	const quick, slow = slowBatch / 100, 5 * slowBatch
	batch(entryCost, quick) // the way to the node is known
	require.Equal(t, mostAllowance, a.load())
	require.Equal(t, mostAllowance, batch(5*entryCost, slow), "it may have waited for others")
	require.InDelta(t, mostAllowance/5, batch(50*entryCost, slow), float64(entryCost))
	for a.load() > leastAllowance {
		require.Less(t, batch(a.load(), slow), mostAllowance/20)
	}
	require.Equal(t, leastAllowance, batch(entryCost, slow))
	for range 200 {
		batch(a.load(), quick)
	}
	require.Equal(t, mostAllowance, a.load())
}

// How far a node is away does not lower its allowance, also when batches overlap on the way.
func TestTheAllowanceDoesNotDependOnTheDistance(t *testing.T) {
	t.Parallel()
	var a allowance
	a.open()
	const (
		ms   = time.Millisecond
		dear = 10 * ms
	)
	for at := time.Duration(0); at < 10*time.Second; at += 20 * ms { // a batch each 20 ms, on a way of 40 ms
		a.observe(dear, at, at+40*ms+at%3)
		require.Equal(t, mostAllowance, a.load())
	}
	a.observe(dear, 20*time.Second, 20*time.Second+60*ms) // the node has worked for 20 ms
	require.InDelta(t, mostAllowance/10, a.load(), float64(ms))
	a.observe(dear, 20*time.Second+30*ms, 20*time.Second+80*ms) // for 10 ms, after the batch before
	require.InDelta(t, mostAllowance/50, a.load(), float64(ms))
}
