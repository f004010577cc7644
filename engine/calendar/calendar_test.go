package calendar

import (
	"log/slog"
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/stretchr/testify/require"
)

const day = 86_400_000 // ms

// nodes is an engine whose keys have clocks of their own. It admits what has the date of its key's clock.
type nodes struct {
	engine.Starter
	clocks  map[string]int64 // ms
	charged map[string]int64 // units
	calls   int
}

func (n *nodes) Do(p *engine.Pipeline) {
	n.calls++
	p.Grow()
	for i := 0; i < len(p.Requests); {
		end := i + 1 + p.Requests[i].MoreKeys
		n.decide(p.Requests[i:end], p.Results[i:end])
		i = end
	}
}

// Start implements engine.Starter.
func (n *nodes) Start(p *engine.Pipeline, done func()) {
	n.Do(p)
	done()
}

// decide decides a request, all of whose keys are admitted or none is.
func (n *nodes) decide(requests []engine.Request, results []engine.Result) {
	var err error
	for i := len(requests) - 1; i >= 0; i-- {
		r := &requests[i]
		dated := r.Spec
		if dated.Date(n.clocks[string(r.Key)]); dated != r.Spec {
			err = &engine.Misdated{Now: n.clocks[string(r.Key)]}
		}
	}
	for i := range requests {
		r := &requests[i]
		if results[i] = (engine.Result{Err: err}); err == nil {
			results[i].Allowed = true
			n.charged[string(r.Key)] += r.Cost
		}
	}
}

// perDay returns a request about a calendar day.
func perDay(t *testing.T, key string, more int) engine.Request {
	t.Helper()
	length, ok := limit.CalendarLength([]byte("day"))
	require.True(t, ok)
	r := engine.Request{Key: []byte(key), MoreKeys: more, Spec: limit.Spec{Kind: limit.Fixed, N: 1, Cost: 1, Param: 1}}
	r.Windows[0] = limit.Window{Limit: 5, Length: length}
	return r
}

// open returns an engine whose own clock is an hour before midnight.
func open(clocks map[string]int64) (*Engine, *nodes) {
	n := &nodes{clocks: clocks, charged: map[string]int64{}}
	now := func() time.Time { return time.UnixMilli(100*day - 3_600_000) }
	return &Engine{Starter: n, Now: now, Logger: slog.Default()}, n
}

// The keys of a pipeline, and those of a multi-key request, may have nodes on two sides of midnight.
func TestRequestsAreChargedOnceOnBothSidesOfMidnight(t *testing.T) {
	t.Parallel()
	for _, clocks := range []map[string]int64{
		{"a": 100*day - 1, "b": 100 * day, "c": 100*day - 1, "d": 101 * day},
		{"a": 100 * day, "b": 100*day - 1, "c": 101 * day, "d": 100*day - 1},
		{"a": 100 * day, "b": 100 * day, "c": 100 * day, "d": 100 * day},
	} {
		for name, ask := range map[string]func(*Engine, *engine.Pipeline){
			"Do": (*Engine).Do,
			"Start": func(e *Engine, p *engine.Pipeline) {
				done := make(chan struct{})
				e.Start(p, func() { close(done) })
				<-done
			},
		} {
			e, n := open(clocks)
			p := engine.Pipeline{Requests: []engine.Request{
				perDay(t, "a", 0), perDay(t, "b", 0), perDay(t, "a", 3), perDay(t, "b", 0), perDay(t, "c", 0), perDay(t, "d", 0), perDay(t, "d", 0),
			}}
			ask(e, &p)
			for i := range p.Results {
				require.NoError(t, p.Results[i].Err, "%s %v: request %d", name, clocks, i)
				require.True(t, p.Results[i].Allowed)
			}
			require.Equal(t, map[string]int64{"a": 2, "b": 2, "c": 1, "d": 2}, n.charged, "%s %v", name, clocks)
		}
	}
}

// A node that refuses all dates does not keep the request forever.
func TestANodeWhoseDateChangesEachTime(t *testing.T) {
	t.Parallel()
	clocks := map[string]int64{}
	e, n := open(clocks)
	e.Starter = restless{n}
	p := engine.Pipeline{Requests: []engine.Request{perDay(t, "a", 0)}}
	e.Do(&p)
	require.EqualError(t, p.Results[0].Err,
		"UNAVAILABLE: the date of the key's node changed each time it was asked; its clock showed 1970-04-16T00:00:00Z")
	require.Equal(t, 1+tries, n.calls)
	require.Empty(t, n.charged)
}

// After a panic, nothing that was left half answered passes for an answer.
func TestAPanicIsAnError(t *testing.T) {
	t.Parallel()
	e, n := open(map[string]int64{"a": 100 * day})
	e.Logger = slog.New(slog.DiscardHandler)
	p, done := engine.Pipeline{Requests: []engine.Request{perDay(t, "a", 0)}}, make(chan struct{})
	e.Starter = panicking{n}
	e.Start(&p, func() { close(done) })
	<-done
	require.EqualError(t, p.Results[0].Err, "UNAVAILABLE rlproxy: internal error: see the log")
}

// panicking is nodes that answer what is started, and nothing else.
type panicking struct{ *nodes }

func (n panicking) Do(p *engine.Pipeline) {
	p.Grow()
	panic("no")
}

// restless is nodes whose clocks pass a midnight before each answer.
type restless struct{ *nodes }

func (n restless) Do(p *engine.Pipeline) {
	for i := range p.Requests {
		key := string(p.Requests[i].Key)
		n.clocks[key] = max(n.clocks[key], 100*day) + day
	}
	n.nodes.Do(p)
}

// Nothing is made for a request that has the right date.
func TestDatesTakeNoMemory(t *testing.T) {
	e, _ := open(map[string]int64{"a": 100*day - 1})
	p := engine.Pipeline{Requests: []engine.Request{perDay(t, "a", 0)}}
	e.Do(&p)
	require.Zero(t, testing.AllocsPerRun(100, func() { e.Do(&p) }))
}
