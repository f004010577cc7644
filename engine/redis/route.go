package redis

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/limit"
	"github.com/rlproxy/rlproxy/engine/split"
)

// pending is something that waits for its node: a request, or a call of package
// split.
type pending struct {
	backlog.Item
	req *engine.Request
	res *engine.Result

	call *split.Call // in place of a request
	key  []byte      // the name of the key that call is about

	multi  *multiKey // the multi-key request that req is the first of; nil if there is none
	single bool      // it is not an entry of a call of rl_decide, see single.go

	wait  *waiter // notified when the item is answered; nil if nobody waits for it
	shard int     // the shard of the key that is asked; 0 is the home
	index int     // in the pipeline

	open         bool // left to package split
	maybeApplied bool // the node may have run it without saying so
	readOnly     bool // an RL.INSPECT, which the node has refused because it refuses all that may write

	// In a Redis Cluster:
	misrouted bool // it has not run, and is sent again in a call about its key only: a node without the key then names the one that has it
}

// name returns the name of the key that the node is asked about.
func (it *pending) name() []byte {
	if it.call != nil {
		return it.key
	}
	return it.req.Key
}

// waiter lets one goroutine wait for several nodes' answers to its pipeline: one
// channel operation a pipeline, however many requests and nodes there are.
type waiter struct {
	left atomic.Int64  // answers that have yet to come
	done chan struct{} // receives a value when left reaches 0, unless then is set
	then func()        // called in place of a send on done, for a pipeline that no goroutine waits for; else nil

	mu     sync.Mutex
	open   []*split.Request // guarded by mu: what nodes left to package split
	opened atomic.Bool      // whether open has any
}

// leave leaves a request to package split.
func (w *waiter) leave(r *split.Request) {
	w.mu.Lock()
	w.open = append(w.open, r)
	w.opened.Store(true)
	w.mu.Unlock()
}

// takeOpen returns what was left open, in the order of the pipeline.
func (w *waiter) takeOpen() []*split.Request {
	w.mu.Lock()
	open := w.open
	w.open = nil
	w.opened.Store(false)
	w.mu.Unlock()
	if len(open) > 1 {
		slices.SortStableFunc(open, func(a, b *split.Request) int { return cmp.Compare(a.Index, b.Index) })
	}
	return open
}

// notify notifies the pipelines of items that have their results, or were left open.
// The results must be written before: waiting goroutines may use them afterwards.
func notify(items []pending) {
	for len(items) > 0 {
		w, i := items[0].wait, 1
		for i < len(items) && items[i].wait == w {
			i++
		}
		switch {
		case w == nil: // nobody waits, or the item was redirected to another node
		case w.left.Add(int64(-i)) != 0:
		case w.then != nil:
			w.then()
		default:
			w.done <- struct{}{}
		}
		items = items[i:]
	}
}

// topology is the nodes in use, each with its queue.
type topology = backend.Lanes[*queue]

// A plan holds the routes of one run of requests. Plans are pooled.
type plan struct {
	waiter
	topology *topology
	byNode   []part // by index of the node
	asked    int    // requests in byNode
	routes   split.Routes
	multi    []*multiKey // the multi-key requests in byNode
	started  started     // set for a pipeline that no goroutine waits for
}

// part is the part of a run that goes to one node.
type part struct {
	items []pending
	cost  time.Duration
}

func (e *Engine) newPlan() any {
	p := &plan{waiter: waiter{done: make(chan struct{}, 1)}}
	p.started.proceed = func() { e.proceed(p) }
	return p
}

// begin empties the plan.
func (p *plan) begin(t *topology) {
	p.topology, p.asked, p.routes, p.multi = t, 0, split.Routes{}, nil
	if len(p.byNode) < len(t.Queues) {
		p.byNode = make([]part, len(t.Queues))
	}
}

// add adds an item to the run. If it would exceed what the node allows to a run, add returns false and the run ends before the item.
func (p *plan) add(node int, it pending) bool {
	part, cost := &p.byNode[node], entryCost
	switch n := len(part.items); {
	case n > 0 && !it.single && !part.items[n-1].single && it.shard == part.items[n-1].shard && it.req.Repeats(part.items[n-1].req):
		cost = repeatCost
	case it.single || it.req.N != 1 || it.req.Shards > 1:
		cost = it.cost()
	}
	if len(part.items) > 0 && part.cost+cost > p.topology.Queues[node].waiting.Allowance() {
		return false
	}
	it.wait = &p.waiter
	part.items, part.cost = append(part.items, it), part.cost+cost
	p.asked++
	return true
}

// route plans the run of requests that begins at from, and returns where it ends. It
// answers requests that are known to be denied itself. A run for nodes to answer has at most
// backlog.MaxItems requests, and at most a cost that each node sets, so that nodes can answer it in time; the next one has a
// deadline of its own. A multi-key request that no single call can answer ends the run before it, which may
// leave the run empty.
func (e *Engine) route(plan *plan, p *engine.Pipeline, from int) (to int) {
	at := e.elapsed()
	plan.begin(e.queues.OpenAll())
	denied := -1 // the last request that was answered from memory
	for i := from; i < len(p.Requests); i++ {
		if plan.asked >= backlog.MaxItems {
			return i
		}
		r, res := &p.Requests[i], &p.Results[i]
		if r.MoreKeys > 0 {
			if !e.routeMultiKey(plan, p, i, at) {
				return i
			}
			i += r.MoreKeys
			continue
		}
		if r.AnswerVerdict(res) {
			continue
		}
		if denied >= 0 && denied == i-1 && r.Repeats(&p.Requests[denied]) {
			*res = p.Results[denied]
			e.denials.Repeat()
			denied = i
			continue
		}
		if !e.config.AskAlways && e.denials.Answer(r, at.Milliseconds(), res) {
			denied = i
			continue
		}
		if c := e.layout.Conflict.Load(); c != nil && e.contested(c, r) {
			e.answerContested(plan.topology, r, res)
			continue
		}
		shard := 0
		if r.Shards > 1 || r.ConcernsWholeKey() || e.splits.PossiblySplit.Load() > 0 {
			var waits, ok bool
			if shard, waits, ok = e.splits.Route(&plan.routes, r); !ok {
				return i
			}
			if waits {
				plan.leave(&split.Request{Request: r, Result: res, Sent: at.Milliseconds(), Index: i})
				continue
			}
		}
		single := r.Op > engine.OpReset || r.Hold != nil && (r.Cost > 0 || r.Kind == limit.Concurrency)
		if !plan.add(plan.topology.Locate(r.Key, shard), pending{Item: backlog.Item{At: at}, req: r, res: res, shard: shard, index: i, single: single}) {
			return i
		}
		if r.Op == engine.OpReset {
			e.forget(r.Key)
		}
	}
	return len(p.Requests)
}

// send hands the planned requests to their nodes and returns when all are answered
// or left open. The caller asks the last node itself if that node is idle, which saves two wake-ups.
func (e *Engine) send(plan *plan) {
	if plan.asked == 0 {
		return
	}
	plan.left.Store(int64(plan.asked))
	left := plan.asked
	for node := range plan.byNode {
		part := &plan.byNode[node]
		if len(part.items) == 0 {
			continue
		}
		q := plan.topology.Queues[node]
		left -= len(part.items)
		if left > 0 || !q.waiting.ServeIfIdle(part.items, part.cost) {
			q.submit(part.items, part.cost)
		}
		clear(part.items)
		part.items, part.cost = part.items[:0], 0
	}
	<-plan.done
}
