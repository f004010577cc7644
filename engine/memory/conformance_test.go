package memory

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/stretchr/testify/require"
)

func TestConformance(t *testing.T) {
	open := func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }
	conformance.Run(t, open, 10_000)
}

func TestConformanceOfHolds(t *testing.T) {
	conformance.RunHolds(t, func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }, 4000)
}

func TestConformanceOfSeveralKeys(t *testing.T) {
	conformance.RunJoint(t, func(t *testing.T, clock func() int64) engine.Engine { return withoutJanitor(t, clock) }, 2000, true)
}

// sweeping is an engine that looks for expired keys before each pipeline.
type sweeping struct{ *Engine }

// Do implements engine.Engine.
func (s sweeping) Do(p *engine.Pipeline) {
	s.sweepAll(s.clock())
	s.Engine.Do(p)
}

func TestConformanceAtInstants(t *testing.T) {
	conformance.RunInstants(t, func(t *testing.T, clock func() time.Time) engine.Engine {
		e := New(Config{Now: clock})
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		return sweeping{e}
	}, 20_000)
}

// withoutJanitor opens an engine that drops no key by itself: in these runs the
// clock steps back by hours, to before the expiry of keys.
func withoutJanitor(t *testing.T, clock func() int64) *Engine {
	e := New(Config{Now: conformance.At(clock)})
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return e
}
