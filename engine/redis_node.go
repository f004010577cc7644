package engine

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// inFlight is how many batches a node has under way. While they are, what arrives
// waits and becomes the next batch: the busier the node, the larger its batches. Two
// keep the node at work while this process reads the answers to the last one.
const inFlight = 2

// batchItems is where a batch ends, at the end of the pipeline that reaches it.
const batchItems = 1024

// node is one backend: a queue of requests, the workers that take them to it, and
// what is known of its health.
type node struct {
	engine  *Redis
	backend *backend
	name    string        // host:port
	client  *redis.Client // nil: there is no such node, see absentNode
	links   links
	health  health
	stats   nodeStats
	report  report
	resets  resetListener
	lanes   lanes // of ordinary commands

	mu     sync.Mutex
	ready  sync.Cond // a worker may find something to do, or closed is set
	queue  []item
	busy   int    // batches under way
	spare  *batch // of who has served one of its own, for the next
	closed bool

	workers sync.WaitGroup // and who serves a batch of its own
}

func openNode(e *Redis, b *backend, addr string) *node {
	n := &node{engine: e, backend: b, name: addr}
	n.ready.L = &n.mu
	n.client = redis.NewClient(e.options(b, addr, &n.links))
	n.health.open(n)
	n.resets.open(n.client, &e.denied)
	for range inFlight {
		n.workers.Add(1)
		go n.work() // until close
	}
	return n
}

// absentNode stands for a node that nobody has named yet. It answers by policy, and
// needs no close.
func absentNode(e *Redis, name, why string) *node {
	n := &node{engine: e, name: name}
	n.health.node = n
	n.health.state.Store(downAfter)
	n.health.cause.Store(&why)
	return n
}

// options are those of a client of the node at addr, one of the backend's.
func (e *Redis) options(b *backend, addr string, ls *links) *redis.Options {
	o := *b.options
	o.Addr = addr
	o.Dialer = ls.dialer(b.tls, e.tls.Load)
	o.Protocol = 2      // replies of scripts are strings: RESP3 has nothing to add
	o.MaxRetries = -1   // what may have run is never sent again
	o.DialerRetries = 1 // a dead node costs one dial
	o.ContextTimeoutEnabled = true
	o.DialTimeout = e.config.Timeout
	o.ReadTimeout = e.config.Timeout
	o.WriteTimeout = e.config.Timeout
	o.PoolSize = inFlight + 2 // the workers, a probe, and one to spare
	o.PipelinePoolSize = -1   // one pool: a connection that is open serves both
	o.ClientName = "rlproxy"
	o.DisableIdentity = true
	return &o
}

func (n *node) close() error {
	n.mu.Lock()
	n.closed = true
	n.ready.Broadcast()
	n.mu.Unlock()
	n.workers.Wait()
	n.health.close()
	n.resets.close()
	return errors.Join(n.lanes.close(), n.client.Close())
}

// submit hands in requests that belong to one pipeline, or answers them at once if
// the node is down or has too many waiting. It copies the items.
func (n *node) submit(items []item) {
	var why string
	if n.health.down() {
		why = n.health.reason()
	} else {
		n.mu.Lock()
		if !n.closed && len(n.queue)+len(items) <= n.engine.config.MaxWaiting {
			n.queue = append(n.queue, items...)
			n.mu.Unlock()
			n.ready.Signal()
			return
		}
		why = "too many requests wait for it"
		if n.closed {
			why = "it is no longer a backend's master"
		}
		n.mu.Unlock()
	}
	for i := range items {
		n.refuse(&items[i], why)
	}
	answered(items)
}

// ask is submit for who has nothing else to do than to wait for the answers. If the node has nothing
// to do either, it is asked from here: that saves waking a worker, and being woken by it.
func (n *node) ask(items []item) {
	n.mu.Lock()
	if n.closed || n.busy > 0 || len(n.queue) > 0 {
		n.mu.Unlock()
		n.submit(items)
		return
	}
	n.busy++
	n.workers.Add(1)
	b := n.spare
	n.spare = nil
	n.mu.Unlock()
	if b == nil {
		b = new(batch)
	}
	var sound *batch
	defer func() { // after a panic, too: it costs a connection and a batch, not the node
		n.mu.Lock()
		n.busy--
		n.spare = sound
		if len(n.queue) > 0 {
			n.ready.Signal()
		}
		n.mu.Unlock()
		n.workers.Done()
	}()
	b.items = append(b.items[:0], items...)
	n.answer(b)
	sound = b
}

// answered tells the pipelines of items that their results are there.
func answered(items []item) {
	for len(items) > 0 {
		w, i := items[0].wait, 1
		for i < len(items) && items[i].wait == w {
			i++
		}
		if w != nil { // nil: sent on to another node
			w.answered(i)
		}
		items = items[i:]
	}
}

// take waits for requests and moves them to buf: whole pipelines, so that no two batches carry
// parts of the same one. It returns nil when the node is closed.
func (n *node) take(buf []item) []item {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.queue) == 0 || n.busy >= inFlight {
		if n.closed && len(n.queue) == 0 {
			return nil
		}
		n.ready.Wait()
		if len(n.queue) > 0 {
			// Whoever else is ready to hand in requests does so first: they go in one
			// batch instead of two.
			n.mu.Unlock()
			runtime.Gosched()
			n.mu.Lock()
		}
	}
	end := min(batchItems, len(n.queue))
	for end < len(n.queue) && n.queue[end].wait == n.queue[end-1].wait {
		end++
	}
	buf = append(buf[:0], n.queue[:end]...)
	rest := copy(n.queue, n.queue[end:])
	clear(n.queue[rest:])
	n.queue = n.queue[:rest]
	n.busy++
	if rest > 0 {
		n.ready.Signal()
	}
	return buf
}

// done gives back what take took a place for.
func (n *node) done() {
	n.mu.Lock()
	n.busy--
	n.mu.Unlock()
}

func (n *node) work() {
	defer n.workers.Done()
	var b batch
	for {
		items := n.take(b.items)
		if items == nil {
			return
		}
		b.items = items
		n.answer(&b)
		n.done()
	}
}

// answer serves a batch and tells who waits.
func (n *node) answer(b *batch) {
	items := b.items
	n.serve(b)
	answered(b.items)
	clear(items)
}

// serve gives every item of the batch its result. It returns by the deadline of the
// oldest item, give or take the time to write and read.
func (n *node) serve(b *batch) {
	e := n.engine
	if n.health.down() {
		b.refuse(n, n.health.reason())
		return
	}
	oldest := b.dropLate(n)
	if len(b.items) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), e.opened.Add(oldest+e.config.Timeout))
	defer cancel()
	clock := ""
	if e.clock != nil {
		clock = fmt.Sprint(e.clock())
	}
	b.sent, b.resets = e.elapsed(), e.denied.resets.Load()
	b.build(ctx, clock, n.backend.kind == cluster)
	n.exec(ctx, b.cmds)
	// A node without the scripts has not run what it refused for that. It may lose
	// them again and again.
	for try := 1; b.collect(n, try == loadTries); try++ {
		b.rebuild(ctx, clock)
		n.exec(ctx, b.cmds)
	}
	b.resubmit(n)
}

// dropLate answers by policy for items that waited for so long that there is hardly
// time left, and takes them out: with them the whole batch would have to be given up
// early. It returns when the oldest of the others was handed in.
func (b *batch) dropLate(n *node) (oldest time.Duration) {
	now, patience := n.engine.elapsed(), n.engine.config.Timeout*7/8
	kept := b.items[:0]
	oldest = now
	for _, it := range b.items {
		if now-it.at < patience {
			oldest = min(oldest, it.at)
			kept = append(kept, it)
			continue
		}
		n.refuse(&it, "too many requests wait for it")
		if it.wait != nil { // nil: nobody waits, or somebody else answers
			it.wait.answered(1)
		}
	}
	b.items = kept
	return oldest
}

// loadTries is how often a batch is sent to a node that has not got the scripts.
const loadTries = 8

// exec sends commands to the node in one write. Errors are the commands' own.
func (n *node) exec(ctx context.Context, cmds []redis.Cmder) {
	n.stats.batches.Add(1)
	if len(cmds) == 1 {
		_ = n.client.Process(ctx, cmds[0])
		return
	}
	pipe := n.client.Pipeline()
	for _, cmd := range cmds {
		_ = pipe.Process(ctx, cmd)
	}
	_, _ = pipe.Exec(ctx)
}

// refuse answers for the node by the request's policy. What a part of a split key is
// known not to have decided, its home decides.
func (n *node) refuse(it *item, why string) {
	if it.run != nil {
		it.run.node, it.run.why, it.run.unsure = n, why, it.unsure
		return
	}
	if it.part > 0 && !it.unsure && n.engine.elapsed() < it.at+n.engine.config.Timeout*7/8 {
		n.engine.splits.join(newParty([]item{*it}, nil))
		*it = item{}
		return
	}
	r := it.req
	if r.Op > OpThrottle {
		it.res.Err = &Unavailable{n.name, why}
		return
	}
	policy := r.policy(n.engine.config.Rules, n.engine.config.Policy)
	n.engine.answered[policy].Add(1)
	n.stats.policies[policy].Add(1)
	n.report.answered(n, policy, why)
	switch policy {
	case PolicyError:
		it.res.Err = &Unavailable{n.name, why}
	case PolicyLocal:
		n.engine.settle.decide(it)
		if n.health.state.Load() == 0 {
			n.engine.settle.wake()
		}
	default:
		it.res.Decision = policyDecision(r, policy, n.health.untilProbe())
	}
}
