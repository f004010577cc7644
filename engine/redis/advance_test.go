package redis

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

// advancing is an engine with advances. Its own time and that of its nodes is that of a test.
type advancing struct {
	*Engine
	dated    inOrder
	clock    func() int64
	ms       atomic.Int64 // of the clock, as the engine sees it
	advanced bool
}

// openAdvancing returns a function that opens an engine with advances on some nodes.
func openAdvancing(nodes int) func(t *testing.T, clock func() int64) conformance.Advancing {
	return func(t *testing.T, clock func() int64) conformance.Advancing {
		a := &advancing{clock: clock}
		a.ms.Store(clock())
		a.dated = on(nodes)(t, a.ms.Load).(inOrder)
		a.Engine = a.dated.inner()
		listens(t, a.Engine, nodes)
		a.began = time.UnixMilli(conformance.Base) // in the future, as every deadline is then
		a.now = func() time.Time { return time.UnixMilli(a.ms.Load()) }
		a.Configure(Settings{Advance: 250 * time.Millisecond})
		return a
	}
}

// Do implements engine.Engine. While anything is advanced, time passes in small steps, in which the engine accounts.
func (a *advancing) Do(p *engine.Pipeline) {
	const step = 10
	for now := a.clock(); a.ms.Load() < now; {
		a.settle()
		if to := a.ms.Load() + step; to < now && a.advances.Totals().Out > 0 {
			a.ms.Store(to)
		} else {
			a.ms.Store(now)
		}
		a.advances.Tick()
	}
	a.settle()
	before := a.advances.Totals()
	a.dated.Do(p)
	a.settle()
	after := a.advances.Totals()
	a.advanced = before.Out+after.Out > 0 || before.Calls != after.Calls
}

// settle waits until no calls are under way, which nobody waits for otherwise.
func (a *advancing) settle() {
	for a.advances.Totals().Pending > 0 {
		time.Sleep(20 * time.Microsecond)
	}
}

// Advanced implements conformance.Advancing.
func (a *advancing) Advanced() bool { return a.advanced }

func TestConformanceWithAdvances(t *testing.T) {
	t.Parallel()
	conformance.RunAdvances(t, func(t *testing.T, clock func() int64) conformance.Advancing {
		a := openAdvancing(1)(t, clock)
		t.Cleanup(func() { require.Zero(t, a.(*advancing).advances.Totals().Lapsed) })
		return a
	}, 12_000)
}
