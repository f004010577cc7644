package redis

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/calendar"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/internal/proxytest"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// advancing is an engine with advances. Its own time and that of its nodes is that of a test.
type advancing struct {
	*Engine
	dated    *calendar.Engine // its clock is that of the nodes
	clock    func() int64
	ms       atomic.Int64 // of the clock, as the engine sees it
	advanced bool
}

// openAdvancing returns a function that opens an engine with advances on some nodes.
func openAdvancing(nodes int) func(t *testing.T, clock func() int64) conformance.Advancing {
	return func(t *testing.T, clock func() int64) conformance.Advancing {
		a := &advancing{clock: clock}
		a.ms.Store(clock())
		a.dated = on(nodes)(t, a.ms.Load).(inOrder).Engine.(*calendar.Engine)
		a.Engine = a.dated.Starter.(*Engine)
		listens(t, a.Engine, nodes)
		a.began = time.UnixMilli(conformance.Base) // in the future, as every deadline is then
		a.now = func() time.Time { return time.UnixMilli(a.ms.Load()) }
		a.dated.Now = a.now
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

// Two proxies are asked about a day around midnight, each with an own idea of the date, and the node refuses the calls of one of
// them for a while. What is drawn counts in the day that the node's clock shows, so neither day admits more than its limit, and the
// second one all of it.
func TestNothingIsDrawnFromTheDayBefore(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do("ACL", "SETUSER", "proxy", "on", ">secret", "allkeys", "allchannels", "+@all")
	const most, midnight = 20_000, conformance.Base + 86_400_000
	var now atomic.Int64
	now.Store(midnight - 1000)
	r := splitRequest("k", limit.Fixed, 1, 0, limit.Window{Limit: most})
	r.Windows[0].Length, _ = limit.CalendarLength([]byte("day"))
	r.Fail = engine.FailError
	var proxies []*advancing
	for i, url := range []string{s.URL(), "redis://proxy:secret@" + s.Addr} {
		e := openAlways(t, 5*time.Second, url)
		e.nodeClock = now.Load
		listens(t, e, 1)
		e.began = time.UnixMilli(conformance.Base)
		e.now = func() time.Time { return time.UnixMilli(now.Load()) }
		e.Configure(Settings{Advance: 250 * time.Millisecond})
		date := func() time.Time { return time.UnixMilli(now.Load() + []int64{-700, 700}[i]) }
		proxies = append(proxies, &advancing{Engine: e, dated: &calendar.Engine{Starter: e, Now: date, Logger: slog.Default()}})
	}
	var admitted, drawn [2]int // before midnight, and from then on
	alone := 0                 // drawn by the proxy that is refused
	for ; now.Load() < midnight+2000; now.Add(1) {
		at, day := now.Load()-midnight, 0
		if at >= 0 {
			day = 1
		}
		switch at {
		case -280:
			s.Do("ACL", "SETUSER", "proxy", "-fcall", "-evalsha")
		case 100:
			s.Do("ACL", "SETUSER", "proxy", "+@all")
			proxytest.Eventually(t, "the node to be up", func() bool { return allUp(proxies[1].Engine) })
		}
		for i, a := range proxies {
			a.advances.Tick()
			a.settle()
			var p engine.Pipeline
			for range 8 {
				*p.Add() = r
			}
			a.dated.Do(&p)
			for _, res := range p.Results {
				if res.Allowed && res.Err == nil {
					admitted[day]++
				}
				if res.Drawn {
					drawn[day]++
				}
				if res.Drawn && i == 1 && at >= -280 && at < 100 {
					alone++
				}
			}
		}
	}
	t.Log(admitted, drawn, alone)
	require.LessOrEqual(t, admitted[0], most)
	require.Equal(t, most, admitted[1])
	require.Positive(t, drawn[0])
	require.Positive(t, drawn[1])
	require.Positive(t, alone)
}
