package redis

import (
	"testing"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/conformance"
	"github.com/rlproxy/rlproxy/internal/redistest"
	"github.com/stretchr/testify/require"
)

// failures returns how many calls of a node have failed, by kind. Kinds without failures are left out.
func failures(n *engine.NodeInfo) map[string]int64 {
	all := make(map[string]int64)
	for _, f := range n.Traffic.Failures {
		if f.Count > 0 {
			all[f.Kind] = f.Count
		}
	}
	return all
}

func TestTrafficCountsWhatIsSent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	ready(t, e, "k")
	before := e.Nodes()[0].Traffic
	began := time.Now()
	p := &engine.Pipeline{}
	for range 5 { // one entry; b is another, and RL.INSPECT is asked alone
		*p.Add() = conformance.Slide("a", 5, 60_000, 1)
	}
	*p.Add() = conformance.Slide("b", 5, 60_000, 1)
	*p.Add() = conformance.Inspect("a")
	e.Do(p)
	after := e.Nodes()[0].Traffic
	require.EqualValues(t, 4, after.Combined-before.Combined)
	require.EqualValues(t, 7, after.Batches.Sum-before.Batches.Sum)
	for i, n := range after.Batches.AtMost {
		want := int64(0)
		if 1<<i >= 7 {
			want = 1
		}
		require.Equal(t, want, n-before.Batches.AtMost[i], "at most %d", 1<<i)
	}
	require.EqualValues(t, 1, after.RoundTrips.Count-before.RoundTrips.Count)
	require.Positive(t, after.RoundTrips.Sum-before.RoundTrips.Sum)
	require.EqualValues(t, 7, after.Waits.Count-before.Waits.Count)
	require.Zero(t, after.Waiting)
	require.WithinRange(t, after.Answered, began, time.Now())
	require.Empty(t, failures(&e.Nodes()[0]))
}

func TestTrafficCountsFailuresByKind(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openAlways(t, 5*time.Second, s.URL())
	e.local.Stop() // it asks a node that refuses
	ready(t, e, "k")
	s.Do("SET", stored("other", 0), "x")
	require.Error(t, conformance.Ask(e, conformance.Slide("other", 5, 60_000, 1)).Err)
	require.Error(t, conformance.Ask(e, conformance.Inspect("other")).Err)
	require.Equal(t, map[string]int64{"key": 2}, failures(&e.Nodes()[0]))
	and := &engine.Pipeline{Requests: []engine.Request{conformance.Slide("k", 5, 60_000, 1), conformance.Slide("other", 5, 60_000, 1)}}
	and.Requests[0].MoreKeys = 1
	e.Do(and)
	require.Error(t, and.Results[1].Err)
	require.Equal(t, map[string]int64{"key": 3}, failures(&e.Nodes()[0]))
	s.Do("CONFIG", "SET", "maxmemory", "1")
	conformance.Ask(e, conformance.Slide("k", 5, 60_000, 1))
	n := e.Nodes()[0]
	require.Equal(t, map[string]int64{"key": 3, "memory": 1}, failures(&n))
	require.Equal(t, "refuses", n.State)
	require.Contains(t, n.Why, "it refused the last call: OOM command not allowed")
	require.EqualValues(t, 1, n.Traffic.FailAnswers[engine.FailClosed])
	lastReply := &e.queues.OpenAll().Queues[0].traffic.LastReply
	answered := lastReply.Load()
	e.fleet.SetTimeout(200 * time.Millisecond)
	s.Pause()
	conformance.Ask(e, conformance.Slide("k", 5, 60_000, 1))
	s.Resume()
	n = e.Nodes()[0]
	require.Equal(t, map[string]int64{"key": 3, "memory": 1, "timeout": 1}, failures(&n))
	require.Equal(t, answered, lastReply.Load(), "a failure is no answer")
}

// A reply that cannot be decoded is counted as such, not as a lost connection.
func TestTrafficCountsMalformedReplies(t *testing.T) {
	t.Parallel()
	n := startFake(t)
	e := openAlways(t, 5*time.Second, "redis://"+n.addr)
	ready(t, e, "k")
	n.set(func(args []string) reply {
		if args[0] == "fcall" {
			return reply{text: bulk("nonsense")}
		}
		return n.well(args)
	})
	require.EqualError(t, conformance.Ask(e, charge("k", 10)).Err, "UNAVAILABLE "+n.addr+": the node's reply is malformed")
	require.Equal(t, map[string]int64{"malformed": 1}, failures(&e.Nodes()[0]))
}

func TestTrafficCountsWhatIsNotSent(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	e := openOn(t, backend.Config{Backends: []string{s.URL()}, Timeout: 2 * time.Second}, Config{AskAlways: true, MaxQueue: 3})
	ready(t, e, "k")
	s.Pause()
	q := e.queues.OpenAll().Queues[0]
	answers := make(chan *engine.Pipeline, 3)
	ask := func(n int) {
		p := &engine.Pipeline{}
		for range n {
			*p.Add() = conformance.Slide("k", 5, 60_000, 1)
		}
		go func() { e.Do(p); answers <- p }() // until it is answered
	}
	busy := func(batches, waiting int) func() bool {
		return func() bool {
			return q.waiting.Busy() == batches && q.waiting.Waiting() == waiting
		}
	}
	for i := range backlog.InFlight { // they take all workers
		ask(1)
		require.Eventually(t, busy(i+1, 0), 20*time.Second, time.Millisecond)
	}
	ask(2)
	require.Eventually(t, busy(backlog.InFlight, 2), 20*time.Second, time.Millisecond)
	require.Equal(t, 2, e.Nodes()[0].Traffic.Waiting)
	p := &engine.Pipeline{}
	*p.Add(), *p.Add() = conformance.Slide("k", 5, 60_000, 1), conformance.Slide("k", 5, 60_000, 1)
	e.Do(p)
	require.EqualValues(t, 2, e.Nodes()[0].Traffic.Overflows)
	s.Resume()
	for range backlog.InFlight + 1 {
		<-answers
	}
}

// Each request is counted by the time that it has waited, and calls of package split are not:
// their time began earlier.
func TestWaitsAreThoseOfRequests(t *testing.T) {
	decide, inspection := conformance.Slide("k", 5, 60_000, 1), conformance.Inspect("k")
	at := 10 * time.Millisecond
	late := backlog.Item{At: at + 4*time.Microsecond}
	b := &batch{q: new(queue), sent: at + 8*time.Microsecond, items: []item{
		{Item: backlog.Item{At: at}, task: entry{}, req: &decide}, {task: &splitCall{}},
		{Item: backlog.Item{At: at}, task: entry{}, req: &decide}, {Item: backlog.Item{At: at}, task: &splitCall{}},
		{Item: late, task: inspect{}, req: &inspection},
	}}
	b.calls, b.used = []*entries{{first: []int{0}, last: []int{2}}}, 1
	require.Zero(t, testing.AllocsPerRun(9, b.count))
	s := b.q.traffic.Snapshot(0)
	require.EqualValues(t, 30, s.Waits.Count)
	require.Equal(t, 10*20*time.Microsecond, s.Waits.Sum)
	require.EqualValues(t, 10, s.Combined)
	require.EqualValues(t, 50, s.Batches.Sum)
	require.True(t, s.Answered.IsZero())
}
