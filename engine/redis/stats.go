package redis

import (
	"fmt"
	"strconv"

	"github.com/rlproxy/rlproxy/engine"
)

// describe adds the queue's counters to d.
func (q *queue) describe(d *engine.NodeInfo) {
	if q.Client() == nil {
		return
	}
	d.Traffic = q.traffic.Snapshot(q.parts.elapsed())
	d.Traffic.Waiting = q.waiting.Waiting()
}

// Stats implements engine.Engine: one line per node comes last.
func (e *Engine) Stats() []engine.Stat {
	queues := e.queues.OpenAll().Queues
	stats := []engine.Stat{
		{Name: "engine", Text: "redis"},
		{Name: "nodes", Value: int64(len(queues)), Metric: "nodes", Help: "Nodes that keep state."},
	}
	stats = append(stats, e.denials.Stats()...)
	for fail := engine.FailClosed; int(fail) < engine.FailPolicies; fail++ {
		stats = append(stats, engine.Stat{Name: "answered_" + fail.String(), Value: e.failed[fail].Load()})
	}
	stats = append(stats, engine.Stat{Name: "not_replicated", Value: e.unreplicated.Load(),
		Metric: "not_replicated_total", Help: "Requests that a node ran, but too few replicas had in time."})
	stats = append(stats, e.local.Stats()...)
	stats = append(stats, e.splits.Stats()...)
	stats = append(stats, e.advances.Stats()...)
	stats = append(stats, e.layout.Stats()...)
	for i, q := range queues {
		stats = append(stats, engine.Stat{Name: "node" + strconv.Itoa(i), Text: q.line()})
	}
	return stats
}

// Nodes implements engine.Engine.
func (e *Engine) Nodes() []engine.NodeInfo {
	t := e.queues.OpenAll()
	names, nodes := t.Names(), make([]engine.NodeInfo, len(t.Nodes))
	for i, n := range t.Nodes {
		d := &nodes[i]
		d.Name, d.State, d.Facts = n.Name(), n.Condition(), n.Facts()
		d.Why = n.Trouble()
		if names != nil {
			d.Placement = names[i]
		}
		e.layout.Describe(n, d)
		t.Queues[i].describe(d)
	}
	e.advances.Describe(nodes, func(key []byte) int { return t.Locate(key, 0) })
	return nodes
}

// line describes the node's health and how often FAIL policies answered in its place.
func (q *queue) line() string {
	fail := &q.traffic.FailAnswers
	return fmt.Sprintf("name=%s,state=%s,batches=%d,failures=%d,closed=%d,open=%d,local=%d,error=%d",
		q.Name(), q.Condition(), q.Batches.Load(), q.Failures(), fail[engine.FailClosed].Load(),
		fail[engine.FailOpen].Load(), fail[engine.FailLocal].Load(), fail[engine.FailError].Load())
}
