package memory

import (
	"testing"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	open := func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }
	conformance.Run(t, open, 10_000)
	conformance.RunThrottle(t, open)
}

func TestConformanceOfHolds(t *testing.T) {
	conformance.RunHolds(t, func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }, 8000)
}

func TestConformanceOfSeveralKeys(t *testing.T) {
	conformance.RunJoint(t, func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }, 2000, true)
}

func TestConformanceCombined(t *testing.T) {
	open := func(t *testing.T, clock func() int64) engine.Engine { return combined{withoutJanitor(t, clock)} }
	conformance.Run(t, open, 10_000)
	conformance.RunThrottle(t, open)
}

// withoutJanitor opens an engine that drops no key by itself: in these runs the
// clock steps back by hours, to before the expiry of keys.
func withoutJanitor(t *testing.T, clock func() int64) *Engine {
	e := New(Config{Now: conformance.At(clock)})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}

// combined sends requests to an engine as the Redis engine does to its nodes: adjacent equal
// requests are one entry.
type combined struct{ *Engine }

func (c combined) Do(p *engine.Pipeline) {
	p.Grow()
	clock := c.clock()
	for i := 0; i < len(p.Requests); {
		r, n := &p.Requests[i], 1
		if r.Op != engine.OpDecide || r.Verdict != engine.VerdictNone || r.Hold != nil || r.With > 0 {
			some := engine.Pipeline{Requests: p.Requests[i : i+1+r.With]}
			c.Engine.Do(&some)
			i += copy(p.Results[i:], some.Results)
			continue
		}
		for i+n < len(p.Requests) && p.Requests[i+n].With == 0 && r.Repeats(&p.Requests[i+n]) && p.Requests[i+n].Verdict == engine.VerdictNone {
			n++
		}
		var us [limit.MaxWindows]limit.Usage
		granted, _, err := c.ask(c.stripe(r.Key), clock, r, int64(n), &us)
		for j := range n {
			p.Results[i+j].Err = err
			p.Results[i+j].Decision = r.Decide(us[:r.N], clock, granted, int64(j))
		}
		i += n
	}
}
