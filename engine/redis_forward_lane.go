package engine

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// lane takes ordinary commands to a node: a queue, connections that speak one
// protocol, and workers. It has none of them before the first command.
type lane struct {
	node   *node
	client *redis.Client
	links  links

	mu     sync.Mutex
	ready  sync.Cond // the queue is not empty, or closed is set
	queue  []item
	closed bool

	workers sync.WaitGroup
}

// lanes are a node's: for RESP2, and for RESP3.
type lanes struct {
	mu     sync.Mutex
	open   [2]*lane // guarded by mu
	closed bool     // guarded by mu
}

// of returns the node's lane for a protocol.
func (ls *lanes) of(n *node, proto int) *lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.open[proto-2]
	if l == nil {
		l = openLane(n, proto)
		ls.open[proto-2] = l
		if ls.closed {
			_ = l.close() // it answers, by refusing
		}
	}
	return l
}

// submit hands in commands of one pipeline, all of one protocol.
func (ls *lanes) submit(n *node, items []item) {
	switch {
	case n.health.down():
		for i := range items {
			items[i].res.Err = &Unavailable{n.name, n.health.reason()}
		}
		answered(items)
	case items[0].req.RESP3:
		ls.of(n, 3).submit(items)
	default:
		ls.of(n, 2).submit(items)
	}
}

func (ls *lanes) close() error {
	ls.mu.Lock()
	open := ls.open
	ls.closed = true
	ls.mu.Unlock()
	var errs []error
	for _, l := range open {
		if l != nil {
			errs = append(errs, l.close())
		}
	}
	return errors.Join(errs...)
}

func openLane(n *node, proto int) *lane {
	l := &lane{node: n}
	l.ready.L = &l.mu
	o := n.engine.options(n.backend, n.name, &l.links)
	o.Protocol = proto
	o.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	o.ReadTimeout = n.engine.config.ForwardTimeout
	o.WriteTimeout = n.engine.config.ForwardTimeout
	o.PipelinePoolSize = inFlight
	o.OnConnect = func(context.Context, *redis.Conn) error {
		n.engine.commands.stale.Store(true) // it may be another server by now
		return nil
	}
	l.client = redis.NewClient(o)
	for range inFlight {
		l.workers.Add(1)
		go l.work() // until close
	}
	return l
}

func (l *lane) close() error {
	l.mu.Lock()
	l.closed = true
	l.ready.Broadcast()
	l.mu.Unlock()
	l.workers.Wait()
	return l.client.Close()
}

func (l *lane) submit(items []item) {
	l.mu.Lock()
	why := ""
	switch {
	case l.closed:
		why = "it is no longer a backend's master"
	case len(l.queue)+len(items) > l.node.engine.config.MaxWaiting:
		why = "too many requests wait for it"
	default:
		l.queue = append(l.queue, items...)
	}
	l.mu.Unlock()
	if why == "" {
		l.ready.Signal()
		return
	}
	for i := range items {
		items[i].res.Err = &Unavailable{l.node.name, why}
	}
	answered(items)
}

// take waits for commands and moves them to buf, whole pipelines at a time. It
// returns nil when the lane is closed and empty.
func (l *lane) take(buf []item) []item {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.queue) == 0 {
		if l.closed {
			return nil
		}
		l.ready.Wait()
	}
	end := min(batchItems, len(l.queue))
	for end < len(l.queue) && l.queue[end].wait == l.queue[end-1].wait {
		end++
	}
	buf = append(buf[:0], l.queue[:end]...)
	rest := copy(l.queue, l.queue[end:])
	clear(l.queue[rest:])
	l.queue = l.queue[:rest]
	if rest > 0 {
		l.ready.Signal()
	}
	return buf
}

func (l *lane) work() {
	defer l.workers.Done()
	b := laneBatch{block: replyBlock{all: &l.node.engine.replies}}
	for {
		items := l.take(b.items)
		if items == nil {
			return
		}
		b.items = items
		l.serve(&b)
		answered(b.items)
		clear(items)
	}
}

// serve gives every command of the batch its result.
func (l *lane) serve(b *laneBatch) {
	n, e := l.node, l.node.engine
	oldest := l.dropLate(b)
	if len(b.items) == 0 {
		return
	}
	ctx, cancel := context.WithDeadline(context.Background(), e.opened.Add(oldest+e.config.ForwardTimeout))
	defer cancel()
	b.build(ctx)
	n.stats.batches.Add(1)
	pipe := l.client.Pipeline()
	_ = pipe.BatchProcess(ctx, b.list...)
	_, _ = pipe.Exec(ctx) // errors are the commands' own
	b.collect(l)
}

// dropLate answers for commands that waited so long that there is hardly time left,
// or for all if the node is down. With the late ones the whole batch would have to
// be given up early. It returns when the oldest of the others was handed in.
func (l *lane) dropLate(b *laneBatch) (oldest time.Duration) {
	n, e := l.node, l.node.engine
	now, patience := e.elapsed(), e.config.ForwardTimeout*7/8
	why, down := "no answer in time", n.health.down()
	if down {
		why = n.health.reason()
	}
	oldest = now
	kept := b.items[:0]
	for _, it := range b.items {
		if !down && now-it.at < patience {
			oldest = min(oldest, it.at)
			kept = append(kept, it)
			continue
		}
		it.res.Err = &Unavailable{n.name, why}
		it.wait.answered(1)
	}
	b.items = kept
	return oldest
}

// noteForward has the node's health take in that an ordinary command failed. That it
// took long says nothing: some do.
func (n *node) noteForward(err error) {
	var dial *net.OpError
	if !isTimeout(err) && !errors.Is(err, context.DeadlineExceeded) || errors.As(err, &dial) && dial.Op == "dial" {
		n.health.note(err)
	}
}
