package redis

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/calendar"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/memory"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// on returns a subject that opens an engine on the given number of new nodes.
func on(nodes int) conformance.Subject {
	return func(t *testing.T, clock func() int64) engine.Engine {
		servers, _ := startServers(t, nodes)
		return withCalendar(openAt(t, clock, servers...))
	}
}

// inOrder is an engine with a calendar that goes by the time of today, so that the nodes have to refuse its dates. As
// what they refuse is decided after the requests that follow it, requests with dates are asked one after the other.
type inOrder struct{ engine.Engine }

func withCalendar(e *Engine) inOrder {
	return inOrder{&calendar.Engine{Starter: e, Now: time.Now, Logger: slog.Default()}}
}

// inner returns the engine that asks the nodes.
func (e inOrder) inner() *Engine { return e.Engine.(*calendar.Engine).Starter.(*Engine) }

// Do implements engine.Engine.
func (e inOrder) Do(p *engine.Pipeline) {
	if !slices.ContainsFunc(p.Requests, func(r engine.Request) bool { return r.HasCalendar() }) {
		e.Engine.Do(p)
		return
	}
	p.Grow()
	for i := 0; i < len(p.Requests); {
		end := i + 1 + p.Requests[i].MoreKeys
		e.Engine.Do(&engine.Pipeline{Requests: p.Requests[i:end], Results: p.Results[i:end]})
		i = end
	}
}

// untimed is on with engines whose own time stands still, so that no multi-key request takes too long.
func untimed(nodes int) conformance.Subject {
	return func(t *testing.T, clock func() int64) engine.Engine {
		dated := on(nodes)(t, clock).(inOrder)
		e := dated.inner()
		e.began = time.UnixMilli(conformance.Base) // in the future, as every deadline is then
		e.now = func() time.Time { return e.began }
		return dated
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, on(1), 3000)
}

func TestConformanceOnSeveralNodes(t *testing.T) {
	t.Parallel()
	conformance.Run(t, on(3), 2000)
}

func TestConformanceOfHolds(t *testing.T) {
	t.Parallel()
	conformance.RunHolds(t, on(1), 3000)
}

func TestConformanceOfHoldsOnSeveralNodes(t *testing.T) {
	t.Parallel()
	conformance.RunHolds(t, on(3), 2000)
}

// RL.INSPECT shows the same with nodes as without.
func TestConformanceOfInspect(t *testing.T) {
	t.Parallel()
	embedded := func(_ *testing.T, clock func() int64) engine.Engine {
		return memory.New(memory.Config{Now: conformance.At(clock)})
	}
	conformance.RunAlike(t, on(1), embedded, 2000)
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
		return inOrder{starting{untimed(3)(t, clock).(inOrder).Engine.(*calendar.Engine)}}
	}
	conformance.Run(t, open, 1000)
	conformance.RunHolds(t, open, 1500)
	conformance.RunJoint(t, open, 200, false)
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

// Nodes answer as the embedded engine does, also of a rate beside other states of its key, and in combined entries.
func TestNodesAnswerLikeEmbedded(t *testing.T) {
	t.Parallel()
	now := int64(conformance.Base)
	clock := func() int64 { return now }
	e, m := on(1)(t, clock), memory.New(memory.Config{Now: conformance.At(clock)})
	seed := conformance.Seed()
	lines := conformance.Lines{
		Rand: rand.New(rand.NewPCG(seed, 6)), Keys: []string{"a", "b", "c", "d"}, Without: []string{"AND", "ONCE", "SHARDS"},
		From: map[string][]int64{"max_burst": {0, 1, 3, 19}, "count": {1, 7, 300, 5000}, "period": {1, 7, 60}},
	}
	for step := range 500 {
		if step%20 == 0 {
			lines.Narrow()
		}
		var a, b engine.Pipeline
		for range 1 + lines.IntN(20) {
			n := len(a.Requests)
			lines.Add(&a, append([]string{"CL.THROTTLE", "CL.THROTTLE", "RL.INSPECT"}, conformance.Decisions...)...)
			for range lines.IntN(3) {
				a.Requests = append(a.Requests, a.Requests[n])
			}
		}
		b.Requests = slices.Clone(a.Requests)
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
			require.Equal(t, b.Results[i], a.Results[i], "-seed %d, step %d, %+v", seed, step, a.Requests[i])
		}
		now += lines.Int64N(300) - 20
	}
}
