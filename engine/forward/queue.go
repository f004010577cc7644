package forward

import (
	"context"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/rlproxy/rlproxy/engine/backend"
)

const (
	// inFlight is how many batches of a queue are in flight at a time. Commands that arrive
	// meanwhile become the next batch.
	inFlight = 2

	// batchItems is the number of commands after which a batch ends. Pipelines are not
	// divided, so the last one may exceed it.
	batchItems = 1024
)

// MaxConnections is the most connections of a forwarder to a node, in both protocols.
const MaxConnections = 2 * (backend.MaxConnections + inFlight)

// queue is a forward queue: it sends commands to a node, over connections of one
// protocol. It opens them, and starts its workers, with the first command.
type queue struct {
	node          *backend.Node
	traffic       *traffic // of the node
	protocol      int      // resp2 or resp3
	config        *Config
	live          *atomic.Pointer[Settings] // of the forwarder
	connected     func()                    // called when a connection was opened
	checkTopology func()                    // called when the node seems to be demoted
	redirected    redirected                // returns the queue for a redirect

	conns backend.Connections

	mu     sync.Mutex
	ready  sync.Cond     // signaled when items is not empty or closed is set; uses mu
	client *redis.Client // guarded by mu; nil before the first command
	items  []item        // guarded by mu
	closed bool          // guarded by mu

	aside   int // workers that wait for a client; guarded by mu
	surplus int // workers that are to end, since those whose place they took are back; guarded by mu

	workers sync.WaitGroup
	asks    sync.WaitGroup // queries without a reply; Add is called with mu held
}

const whyLeft = "the node has left the topology"

// submit queues commands of one pipeline. It refuses them at once if the node is down or
// has left the pipeline waiting before, or if the queue is full. It copies the items, and may reorder
// the slice.
func (q *queue) submit(items []item) {
	if why := items[0].from.unable(q.node); why != "" {
		sent := func(it item) bool { return it.always && q.node.Client() != nil }
		refuse(slices.DeleteFunc(slices.Clone(items), sent), unavailable(q.node, why))
		items = slices.DeleteFunc(items, func(it item) bool { return !sent(it) })
	}
	why := ""
	q.mu.Lock()
	switch {
	case q.closed:
		why = whyLeft
	case len(q.items)+len(items) > q.config.MaxWaiting:
		why = "queue full"
	case len(items) > 0:
		q.open()
		q.items = append(q.items, items...)
	}
	q.mu.Unlock()
	if why != "" {
		refuse(items, unavailable(q.node, why))
		return
	}
	q.ready.Signal()
}

// open makes the client and starts the workers, unless it was called before. The caller
// holds mu.
func (q *queue) open() {
	if q.client != nil {
		return
	}
	q.conns.PassOn = true
	o := q.node.Options(&q.conns)
	o.PipelinePoolSize = inFlight
	o.OnConnect = q.connect
	q.client = redis.NewClient(o)
	for range inFlight {
		q.workers.Add(1)
		go q.work() // until close
	}
}

// connect prepares a new connection. The options name RESP2, because with RESP3 go-redis looks for push
// messages before each reply, and discards attributes as it does.
func (q *queue) connect(ctx context.Context, conn *redis.Conn) error {
	if q.protocol == resp3 { // a node that refuses it replies in RESP2
		if err := conn.Process(ctx, redis.NewRawWriteToCmd(ctx, io.Discard, "hello", 3)); err != nil {
			return err
		}
	}
	q.connected()
	return nil
}

// close answers the queued commands and ends the workers. It may be called twice.
func (q *queue) close() error {
	q.mu.Lock()
	again := q.closed
	q.closed = true
	client := q.client
	q.ready.Broadcast()
	q.mu.Unlock()
	q.workers.Wait()
	if again || client == nil {
		return nil
	}
	err := client.Close() // ends the queries
	q.asks.Wait()
	return err
}

// take waits for commands and moves them to buf. It does not divide pipelines. It returns
// nil if the worker is to end: the queue is closed and empty, or has too many workers.
func (q *queue) take(buf []item) []item {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.surplus > 0 || len(q.items) == 0 {
		if q.surplus > 0 {
			q.surplus--
			q.ready.Signal() // for the commands that this worker was woken for
			return nil
		}
		if q.closed {
			return nil
		}
		q.ready.Wait()
	}
	end := min(batchItems, len(q.items))
	for end < len(q.items) && q.items[end].from == q.items[end-1].from {
		end++
	}
	buf = append(buf[:0], q.items[:end]...)
	rest := copy(q.items, q.items[end:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	if rest > 0 {
		q.ready.Signal()
	}
	return buf
}

func (q *queue) work() {
	defer q.workers.Done()
	b := &batch{queue: q}
	doing := "forwarding commands to " + q.node.Name()
	serve := func() { q.serve(b) }
	for {
		items := q.take(b.items)
		if items == nil {
			return
		}
		b.items, b.next = items, 0
		if !backend.Guard(q.config.Logger, doing, serve) {
			q.conns.DropAll() // replies to this batch may still arrive on them
			rest := b.items[b.next:]
			b = &batch{queue: q}
			refuse(rest, unavailable(q.node, "internal error"))
			continue
		}
		clear(items)
	}
}

// serve sends the batch and sets the result of every command.
func (q *queue) serve(b *batch) {
	oldest := q.dropLate(b)
	if len(b.items) == 0 {
		return
	}
	timeout := q.live.Load().Timeout
	ctx, cancel := context.WithDeadline(context.Background(), oldest.Add(timeout))
	defer cancel()
	b.until = oldest.Add(timeout - timeout/backend.LastPart)
	b.build(ctx)
	q.node.Batches.Add(1)
	pipe := q.client.Pipeline()
	_ = pipe.BatchProcess(ctx, b.list...)
	sent := time.Now()
	_, _ = pipe.Exec(ctx) // collect reads the error of each command
	q.traffic.roundTrips.Add(time.Since(sent), 1)
	q.traffic.commands.Add(int64(len(b.items)))
	b.collect(len(b.items))
	b.release()
}

// dropLate refuses commands that have little of their time left, since the deadline of the
// oldest command is that of the whole batch. If the node is down, it refuses all but those that are
// always sent.
// It returns when the oldest of the others was submitted.
func (q *queue) dropLate(b *batch) (oldest time.Time) {
	now, timeout := time.Now(), q.live.Load().Timeout
	why, down := backend.NoAnswer, q.node.Down()
	if down {
		why = q.node.Reason()
	}
	oldest = now
	kept := b.items[:0]
	for _, it := range b.items {
		if (!down || it.always) && now.Sub(it.at) < timeout-timeout/backend.LastPart {
			if it.at.Before(oldest) {
				oldest = it.at
			}
			kept = append(kept, it)
			continue
		}
		refuse([]item{it}, unavailable(q.node, why))
	}
	b.items = kept
	return oldest
}

// record updates the node's health after a failure. After a timeout the node is only probed, since some
// commands take long on a healthy node.
func (q *queue) record(err error) {
	if !backend.TimedOut(err) || backend.NeverConnected(err) {
		q.node.Record(err)
	} else {
		q.node.Check()
	}
}
