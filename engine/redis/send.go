package redis

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlproxy/rlproxy/engine"
	"github.com/rlproxy/rlproxy/engine/advance/purse"
	"github.com/rlproxy/rlproxy/engine/backend"
	"github.com/rlproxy/rlproxy/engine/backlog"
	"github.com/rlproxy/rlproxy/engine/denials"
	"github.com/rlproxy/rlproxy/engine/local"
	"github.com/rlproxy/rlproxy/engine/resets"
	"github.com/rlproxy/rlproxy/engine/split"
	"github.com/rlproxy/rlproxy/engine/wire"
	"github.com/rlproxy/rlproxy/lua"
)

// parts are what an engine shares with its queues. They are complete before the first queue is opened.
type parts struct {
	fleet    *backend.Fleet
	queues   backend.Queues[*queue]
	live     atomic.Pointer[Settings] // in effect, never modified
	maxQueue int
	logger   *slog.Logger

	resets.Effects
	remember     bool // denials
	denials      denials.Cache
	splits       *split.Splitter
	local        *local.Ledger
	advances     *purse.Purse
	failed       [engine.FailPolicies]atomic.Int64 // answers by FAIL policy, for INFO
	unreplicated atomic.Int64                      // requests that were run, but that too few replicas had in time

	now       func() time.Time
	began     time.Time
	nodeClock func() int64 // ms that functions take for the node's clock; nil outside of tests
	steady    bool         // allowances stay as they are, for tests that count calls on a busy machine
}

// elapsed returns the engine's own clock: the time since it was opened, which no change of the machine's clock moves.
func (p *parts) elapsed() time.Duration { return p.now().Sub(p.began) }

// waiter lets one goroutine wait for several nodes' answers to its pipeline: one channel operation a pipeline, however
// many requests and nodes there are.
type waiter struct {
	left atomic.Int64  // answers that have yet to come
	done chan struct{} // receives a value when left reaches 0, unless then is set
	then func()        // called in place of a send on done, for a pipeline that no goroutine waits for; else nil

	mu      sync.Mutex
	open    []*split.Request // guarded by mu: what nodes left to package split
	anyOpen atomic.Bool      // whether open has any
}

// leave leaves a request to package split.
func (w *waiter) leave(r *split.Request) {
	w.mu.Lock()
	w.open = append(w.open, r)
	w.anyOpen.Store(true)
	w.mu.Unlock()
}

// leave leaves an item to package split, once. refusal is that of the shard that was asked, if it was.
func (it *item) leave(refusal *wire.Refusal) {
	if !it.open {
		it.open = true
		sent := it.At.Milliseconds()
		it.wait.leave(&split.Request{Request: it.req, Result: it.res, Index: it.index, Sent: sent, Refusal: refusal})
	}
}

// takeOpen returns what was left open, in the order of the pipeline.
func (w *waiter) takeOpen() []*split.Request {
	w.mu.Lock()
	open := w.open
	w.open = nil
	w.anyOpen.Store(false)
	w.mu.Unlock()
	slices.SortStableFunc(open, func(a, b *split.Request) int { return cmp.Compare(a.Index, b.Index) })
	return open
}

// notify notifies the pipelines of items that have their results, or were left open. The results must be written
// before: waiting goroutines may use them afterwards.
func notify(items []item) {
	for len(items) > 0 {
		w, i := items[0].wait, 1
		for i < len(items) && items[i].wait == w {
			i++
		}
		switch {
		case w == nil: // nobody waits, or the item was sent on
		case w.left.Add(int64(-i)) != 0:
		case w.then != nil:
			w.then()
		default:
			w.done <- struct{}{}
		}
		items = items[i:]
	}
}

// A plan holds the routes of one run of requests. Plans are pooled.
type plan struct {
	waiter
	topology *lanes
	byNode   []bundle // by index of the node
	asked    int      // requests in byNode
	routes   split.Routes
	multi    []*multiKey // the multi-key requests in byNode
	started  started     // set for a pipeline that no goroutine waits for
}

// bundle is the part of a run that goes to one node.
type bundle struct {
	items []item
	work  time.Duration
}

// begin empties the plan.
func (p *plan) begin(t *lanes) {
	p.topology, p.asked, p.routes, p.multi = t, 0, split.Routes{}, nil
	if len(p.byNode) < len(t.Queues) {
		p.byNode = make([]bundle, len(t.Queues))
	}
}

// add adds an item to the run. If it would exceed what the node allows to a run, add returns false and the run ends
// before the item.
func (p *plan) add(node int, it item) bool {
	part := &p.byNode[node]
	n := len(part.items)
	it.wait = &p.waiter
	part.items = append(part.items, it)
	added, work := &part.items[n], wire.EntryWork
	switch decides := it.task == (entry{}); {
	case n > 0 && decides && added.repeats(&part.items[n-1]):
		work = wire.RepeatWork
	case !decides || it.req.N != 1 || it.req.Shards > 1:
		work = added.task.work(added)
	}
	if n > 0 && part.work+work > p.topology.Queues[node].waiting.Allowance() {
		part.items = part.items[:n]
		return false
	}
	part.work += work
	p.asked++
	return true
}

// repeats reports whether a decision shares the entry of the item before it.
func (it *item) repeats(before *item) bool {
	return before.task == entry{} && it.shard == before.shard && it.req.Repeats(before.req)
}

// sender hands items to the queues of their nodes. It implements split.Nodes.
type sender struct {
	*parts
	plans sync.Pool // of *plan
}

func newPlan() any { return &plan{waiter: waiter{done: make(chan struct{}, 1)}} }

// send hands the planned items to their nodes and returns when all are answered or left open. The caller asks the last
// node itself if that node is idle, which saves two wake-ups.
func (l *sender) send(plan *plan) {
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
		if left > 0 || !q.waiting.ServeIfIdle(part.items, part.work) {
			q.submit(part.items, part.work)
		}
		clear(part.items)
		part.items, part.work = part.items[:0], 0
	}
	<-plan.done
}

// splitCall is a call of package split.
type splitCall struct {
	*split.Call
	key []byte // the name of the key that it is about
}

func (c *splitCall) name(*item) []byte { return c.key }

func (c *splitCall) work(*item) time.Duration { return wire.CallWork }

func (c *splitCall) usesIDs() bool { return c.IDs }

func (c *splitCall) call(items []item) (*lua.Function, [][]byte, []string) {
	return c.Function, c.Args, []string{items[0].stored()}
}

func (c *splitCall) apply(_ *batch, _ *ownCommand, reply string) error { //nolint:unparam // of an interface
	c.Reply = reply
	return nil
}

func (*splitCall) refused(*batch, *ownCommand, error) bool { return false }

func (*splitCall) wrote(*item) bool { return true }

func (c *splitCall) fail(_ *parts, _ *queue, it *item, why string) {
	c.Failure = &split.Failure{Shard: c.Shard, Why: why, MaybeApplied: it.maybeApplied}
}

// Topology implements split.Nodes.
func (l *sender) Topology() *backend.Topology { return l.fleet.Topology() }

// item returns the item of a call, and the index of its node.
func (l *sender) item(t *lanes, key []byte, c *split.Call) (node int, it item) {
	at := l.elapsed()
	if c.Sent > 0 {
		at = min(at, time.Duration(c.Sent)*time.Millisecond)
	}
	return t.Locate(key, c.Shard), item{Item: backlog.Item{At: at}, task: &splitCall{c, key}, shard: c.Shard}
}

// Call implements split.Nodes. If the node is idle, the caller sends the calls itself.
func (l *sender) Call(key []byte, calls []*split.Call) {
	plan := l.plans.Get().(*plan)
	plan.begin(l.queues.OpenAll())
	for _, c := range calls {
		node, it := l.item(plan.topology, key, c)
		if !plan.add(node, it) {
			l.send(plan)
			plan.begin(l.queues.OpenAll())
			plan.add(l.item(plan.topology, key, c))
		}
	}
	l.send(plan)
	l.plans.Put(plan)
}

// Post implements split.Nodes.
func (l *sender) Post(key []byte, c *split.Call) { l.Begin(key, c, nil) }

// Begin implements purse.Homes.
func (l *sender) Begin(key []byte, c *split.Call, done func()) {
	top := l.queues.OpenAll()
	node, it := l.item(top, key, c)
	if done != nil {
		it.wait = &waiter{then: done}
		it.wait.left.Store(1)
	}
	top.Queues[node].submit([]item{it}, wire.CallWork)
}
