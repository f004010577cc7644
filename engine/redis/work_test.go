package redis

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/stretchr/testify/require"
)

// A run ends by work as well as by number. What repeats the request before it is next to no work.
func TestARunEndsByWork(t *testing.T) {
	t.Parallel()
	const allowed = 2 * time.Millisecond
	e := openAlways(t, time.Minute, "redis://"+startFake(t).addr)
	q := &e.queues.OpenAll().Queues[0].waiting
	q.Observe(wire.MostAllowance, 0, 0)
	q.Observe(wire.MostAllowance, 0, wire.MostAllowance) // a slow batch, in which 2 ms are for 2/15 of it
	require.Equal(t, allowed, q.Allowance())
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
		"decisions":    {[]engine.Request{conformance.Slide("", 5, minute, 1)}, true, int(allowed / wire.EntryWork)},
		"equal":        {[]engine.Request{conformance.Slide("k", 5, minute, 1)}, false, backlog.MaxItems},
		"with windows": {[]engine.Request{eight}, true, int(allowed / (wire.EntryWork + 7*wire.WindowWork))},
		"with ids":     {[]engine.Request{reserve("k", "id", 1000, 10)}, false, int(allowed / wire.EntryWork)},
		"settles":      {[]engine.Request{settle("k", "id", 10)}, false, int(allowed / wire.EntryWork)},
		"resets":       {[]engine.Request{conformance.Reset("")}, true, int(allowed / wire.ResetWork)},
		"many shards":  {[]engine.Request{sharded}, true, int(allowed / (wire.EntryWork + 99*wire.ShardWork))},
		"inspect":      {[]engine.Request{conformance.Inspect("k")}, false, int(allowed / wire.InspectWork)},
		"several keys": {[]engine.Request{together, conformance.Slide("l", 5, minute, 1)}, false, 2 * int(allowed/(2*wire.EntryWork))},
	} {
		t.Run(name, func(t *testing.T) {
			p := &engine.Pipeline{}
			for i := range 2 * backlog.MaxItems {
				r := p.Add()
				if *r = c.requests[i%len(c.requests)]; c.other {
					r.Key = fmt.Append(nil, "key", i)
				}
			}
			p.Grow()
			require.Equal(t, c.run, e.route(newPlan().(*plan), p, 0))
		})
	}
}
