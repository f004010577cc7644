package redis

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// on returns a subject that opens an engine on the given number of new nodes.
func on(nodes int) conformance.Subject {
	return func(t *testing.T, clock func() int64) engine.Engine {
		servers, _ := startServers(t, nodes)
		return openAt(t, clock, servers...)
	}
}

// untimed is on with engines whose own time stands still, so that no multi-key request takes too long.
func untimed(nodes int) conformance.Subject {
	return func(t *testing.T, clock func() int64) engine.Engine {
		e := on(nodes)(t, clock).(*Engine)
		e.opened = time.UnixMilli(conformance.Base) // in the future, as every deadline is then
		e.now = func() time.Time { return e.opened }
		return e
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, on(1), 5000)
}

func TestConformanceOnSeveralNodes(t *testing.T) {
	t.Parallel()
	conformance.Run(t, on(3), 4000)
}

func TestConformanceOfHolds(t *testing.T) {
	t.Parallel()
	conformance.RunHolds(t, on(1), 5000)
}

func TestConformanceOfHoldsOnSeveralNodes(t *testing.T) {
	t.Parallel()
	conformance.RunHolds(t, on(3), 3000)
}

// RL.INSPECT shows the same with nodes as without.
func TestConformanceOfInspect(t *testing.T) {
	t.Parallel()
	embedded := func(_ *testing.T, clock func() int64) engine.Engine {
		return memory.New(memory.Config{Now: conformance.At(clock)})
	}
	conformance.RunAlike(t, on(1), embedded, 3000)
}

// starting is an engine whose pipelines are run by Start.
type starting struct{ engine.Starter }

// Do implements engine.Engine.
func (s starting) Do(p *engine.Pipeline) {
	answered := make(chan struct{})
	s.Start(p, func() { close(answered) }) // closing it twice would panic
	s.Flush()
	<-answered
}

// Start gives the same answers as Do.
func TestConformanceOfWhatIsStarted(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, clock func() int64) engine.Engine {
		return starting{untimed(3)(t, clock).(*Engine)}
	}
	conformance.Run(t, open, 3000)
	conformance.RunHolds(t, open, 2000)
	conformance.RunJoint(t, open, 300, false)
}

// A request about several keys of one node is one call. Over several nodes, units are held and then
// settled.
func TestConformanceOfSeveralKeys(t *testing.T) {
	t.Parallel()
	for _, nodes := range []int{1, 3} {
		t.Run(fmt.Sprintf("nodes=%d", nodes), func(t *testing.T) { conformance.RunJoint(t, untimed(nodes), 400, nodes == 1) })
	}
}

// stopped is an engine whose node's own clock stands still at a time that the test sets.
type stopped struct {
	*Engine
	node  *redistest.Server
	clock func() time.Time
}

// Do implements engine.Engine.
func (s stopped) Do(p *engine.Pipeline) {
	s.node.StopClock(s.clock())
	s.Engine.Do(p)
}

// By a node's own clock, which also ends its keys, every request is decided exactly. That of Valkey 9 cannot be
// stopped, so make test-servers leaves this test out: see exact_test.go.
func TestInstantsOfANodesClock(t *testing.T) {
	t.Parallel()
	conformance.RunInstants(t, func(t *testing.T, clock func() time.Time) engine.Engine {
		node := redistest.StartClocked(t)
		return stopped{openAlways(t, 5*time.Second, node.URL()), node, clock}
	}, 20_000)
}

// The nodes answer CL.THROTTLE as the embedded engine does, beside other states of
// the key and in combined entries.
func TestThrottleLikeEmbedded(t *testing.T) {
	t.Parallel()
	now := time.Now().UnixMilli() + 50*365*24*3600*1000
	e := on(1)(t, func() int64 { return now })
	m := memory.New(memory.Config{Now: func() time.Time { return time.UnixMilli(now) }})
	rng := rand.New(rand.NewPCG(5, 6)) // #nosec G404 -- a test's choices
	for step := range 2000 {
		var a, b engine.Pipeline
		for range 1 + rng.IntN(20) {
			key := fmt.Sprintf("k%d", rng.IntN(4))
			r := conformance.Throttle(key, rng.Int64N(20), 1+rng.Int64N(5000), 1+rng.Int64N(60), rng.Int64N(4))
			if rng.IntN(10) == 0 {
				r = conformance.Slide(key, 10, 1000, 1)
			}
			if rng.IntN(50) == 0 {
				r = conformance.Inspect(key)
			}
			for range 1 + rng.IntN(3) {
				*a.Add(), *b.Add() = r, r
			}
		}
		e.Do(&a)
		m.Do(&b)
		for i := range a.Requests {
			for j := range a.Results[i].States {
				a.Results[i].States[j].Node, a.Results[i].States[j].Rate = "embedded", b.Results[i].States[j].Rate
			}
			for _, j := range conformance.Equal(a.Requests, i) {
				if b.Results[j].Allowed && b.Results[j].ResetAfter == a.Results[i].ResetAfter {
					b.Results[i].ResetAfter = a.Results[i].ResetAfter
				}
			}
			require.Equal(t, b.Results[i], a.Results[i], "step %d, %+v", step, a.Requests[i])
		}
		now += rng.Int64N(300) - 20
	}
}
